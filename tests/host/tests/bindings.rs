//! Binding forms: where a value goes does not change how it was computed.

#![allow(clippy::arc_with_non_send_sync)] // every pointer is tested, whatever its use

mod common;

use amp::autocast;
use amp_test_host::{Dtype, HostError, Tensor};
use common::ran;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

type Result<T> = std::result::Result<T, HostError>;

fn x() -> Tensor {
    Tensor::sample(3, 3, 1)
}

fn w() -> Tensor {
    Tensor::sample(3, 3, 2)
}

#[test]
fn let_binds_what_the_operation_gives() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<(Tensor, Tensor)> {
        let h = x.matmul(w)?;
        let s = h.softmax(-1)?;
        Ok((h, s))
    }
    let (h, s) = ran(|| f(&x(), &w()), &["matmul:f16", "softmax:f32"], 2).unwrap();
    assert_eq!((h.dtype(), s.dtype()), (Dtype::F16, Dtype::F32));
}

#[test]
fn typed_let() {
    #[autocast(bf16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let h: Tensor = x.matmul(w)?;
        let n: usize = 3;
        assert_eq!(h.rows(), n);
        h.exp()
    }
    ran(|| f(&x(), &w()), &["matmul:bf16", "exp:f32"], 2).unwrap();
}

#[test]
fn let_else() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: Option<&Tensor>, w: &Tensor) -> Result<Option<Tensor>> {
        let Some(x) = x else { return Ok(None) };
        Ok(Some(x.matmul(w)?.relu()?))
    }
    ran(|| f(Some(&x()), &w()), &["matmul:f16", "relu:f16"], 2).unwrap();
    assert!(ran(|| f(None, &w()), &[], 0).unwrap().is_none());
}

#[test]
fn deferred_initialisation_joins_its_values() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor, sharp: bool) -> Result<Tensor> {
        let h;
        if sharp {
            h = x.softmax(-1)?;
        } else {
            h = x.matmul(w)?;
        }
        Ok(h)
    }
    assert_eq!(ran(|| f(&x(), &w(), true), &["softmax:f32"], 0).unwrap().dtype(), Dtype::F32);
    assert_eq!(ran(|| f(&x(), &w(), false), &["matmul:f16"], 2).unwrap().dtype(), Dtype::F32);
}

#[test]
fn shadowing() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let x = x.matmul(w)?;
        let x = x.exp()?;
        let x = x.matmul(w)?;
        Ok(x)
    }
    // `w` is narrowed once for both products.
    ran(|| f(&x(), &w()), &["matmul:f16", "exp:f32", "matmul:f16"], 3).unwrap();
}

#[test]
fn mutation_joins_at_f32() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let mut h = x.matmul(w)?;
        assert_eq!(h.dtype(), Dtype::F32);
        h = h.softmax(-1)?;
        Ok(h)
    }
    ran(|| f(&x(), &w()), &["matmul:f16", "softmax:f32"], 2).unwrap();
}

#[test]
fn destructuring() {
    struct Pair {
        a: Tensor,
        b: Tensor,
    }
    #[autocast(f16, host = amp_test_host)]
    fn f(pair: &Pair, [c, d]: [&Tensor; 2], (e, n): (&Tensor, usize)) -> Result<Tensor> {
        let Pair { a, b } = pair;
        let (h, k) = (a.matmul(b)?, c.matmul(d)?);
        let [first, second] = [h, k];
        assert_eq!(n, 2);
        first.add(&second)?.add(e)
    }
    let pair = Pair { a: x(), b: w() };
    ran(|| f(&pair, [&x(), &w()], (&x(), 2)), &["matmul:f16", "matmul:f16", "add:f16", "add:f32"], 4).unwrap();
}

#[test]
fn places_behind_pointers_maps_and_indices() {
    #[autocast(f16, host = amp_test_host)]
    fn f(
        a: Box<Tensor>,
        b: Rc<Tensor>,
        c: Arc<Tensor>,
        map: &HashMap<&str, Tensor>,
        list: &[Tensor],
    ) -> Result<Tensor> {
        let h = a.matmul(&b)?.matmul(&c)?;
        let h = h.matmul(&map["w"])?.matmul(&list[0])?;
        h.matmul(list.last().expect("one"))
    }
    let map = HashMap::from([("w", w())]);
    let run = || f(Box::new(x()), Rc::new(w()), Arc::new(w()), &map, &[w()]);
    ran(run, &["matmul:f16"; 5], 6).unwrap();
}

#[test]
fn tuples_and_options_in_and_out() {
    #[autocast(f16, host = amp_test_host)]
    fn f(pair: (Tensor, Tensor), bias: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
        let h = pair.0.matmul(&pair.1)?;
        let with = match bias {
            Some(bias) => Some(h.add(bias)?),
            None => None,
        };
        Ok((h, with))
    }
    let (_, with) = ran(|| f((x(), w()), Some(&x())), &["matmul:f16", "add:f32"], 2).unwrap();
    assert_eq!(with.unwrap().dtype(), Dtype::F32);
    ran(|| f((x(), w()), None), &["matmul:f16"], 2).unwrap();
}

#[test]
fn question_mark_in_any_position() {
    #[allow(clippy::needless_question_mark)] // its form is the test
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        Ok((&x.matmul(&w.matmul(w)?)?.exp()? + &x.relu()?)?)
    }
    ran(|| f(&x(), &w()), &["matmul:f16", "matmul:f16", "exp:f32", "relu:f32", "add:f32"], 2).unwrap();
}

#[test]
fn errors_of_other_types() {
    #[derive(Debug)]
    struct Mine(#[allow(dead_code)] String);
    impl From<HostError> for Mine {
        fn from(error: HostError) -> Self {
            Self(error.to_string())
        }
    }
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor, fail: bool) -> std::result::Result<Tensor, Mine> {
        if fail {
            return Err(Mine("asked for".into()));
        }
        let h = x.matmul(w).map_err(Mine::from)?;
        Ok(h.softmax(-1)?)
    }
    ran(|| f(&x(), &w(), false), &["matmul:f16", "softmax:f32"], 2).unwrap();
    assert!(f(&x(), &w(), true).is_err());
    assert!(f(&x(), &Tensor::sample(2, 3, 1), false).is_err());
}

#[test]
fn no_result_at_all() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Tensor {
        x.matmul(w).unwrap().exp().expect("exp does not fail")
    }
    ran(|| f(&x(), &w()), &["matmul:f16", "exp:f32"], 2);
}

#[test]
fn expressions_inside_std_macros() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Vec<Tensor>> {
        assert_eq!(x.matmul(w)?.dtype(), Dtype::F16, "{:?}", x.exp()?.dtype());
        let list = vec![x.matmul(w)?, x.exp()?.relu()?];
        Ok(list)
    }
    // The assertion's message is evaluated only when it fails; `x` and `w` are narrowed once.
    ran(|| f(&x(), &w()), &["matmul:f16", "matmul:f16", "exp:f32", "relu:f32"], 2).unwrap();
}
