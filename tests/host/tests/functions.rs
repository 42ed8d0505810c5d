//! Functions of every kind, calls in every syntax, regions in regions.

mod common;

use amp::{amp_op, amp_policy, amp_region, autocast};
use amp_test_host::{Dtype, HostError, Tensor, cat};
use common::ran;

type Result<T> = std::result::Result<T, HostError>;

fn x() -> Tensor {
    Tensor::sample(3, 3, 1)
}

fn w() -> Tensor {
    Tensor::sample(3, 3, 2)
}

trait Layer {
    fn run(&self, x: &Tensor) -> Result<Tensor>;

    #[autocast(bf16, host = amp_test_host)]
    fn twice(&self, x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let h = self.run(x)?;
        h.matmul(w)?.exp()
    }
}

struct Dense {
    w: Tensor,
    b: Tensor,
    state: Tensor,
}

impl Layer for Dense {
    #[autocast(f16, host = amp_test_host)]
    fn run(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.w)?.add(&self.b)
    }
}

impl Dense {
    fn new() -> Self {
        Self { w: w(), b: w(), state: x() }
    }

    #[autocast(f16, host = amp_test_host)]
    fn step(&mut self, x: &Tensor) -> Result<()> {
        self.state = x.matmul(&self.w)?.add(&self.state.matmul(&self.w)?)?.tanh()?;
        Ok(())
    }

    #[autocast(f16, host = amp_test_host)]
    fn generic<'a, I>(&self, xs: I) -> Result<Vec<Tensor>>
    where
        I: IntoIterator<Item = &'a Tensor>,
    {
        let mut out = Vec::new();
        for x in xs {
            out.push(x.matmul(&self.w)?);
        }
        Ok(out)
    }
}

#[test]
fn methods_of_traits_objects_and_impls() {
    let dense = Dense::new();
    ran(|| dense.run(&x()), &["matmul:f16", "add:f32"], 2).unwrap();
    ran(|| dense.twice(&x(), &w()), &["matmul:f16", "add:f32", "matmul:bf16", "exp:f32"], 4).unwrap();

    #[autocast(f16, host = amp_test_host)]
    fn all(layers: &[Box<dyn Layer>], x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let mut h = x.matmul(w)?;
        for layer in layers {
            h = layer.run(&h)?;
        }
        h.matmul(w)
    }
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(Dense::new())];
    ran(|| all(&layers, &x(), &w()), &["matmul:f16", "matmul:f16", "add:f32", "matmul:f16"], 5).unwrap();
}

#[test]
fn exclusive_self() {
    let mut dense = Dense::new();
    ran(|| dense.step(&x()), &["matmul:f16", "matmul:f16", "add:f16", "tanh:f16"], 4).unwrap();
}

#[test]
fn generic_functions_and_impl_trait_arguments() {
    // Whether an item is a tensor is not known ahead of the call, so nothing is cast ahead of it.
    ran(|| Dense::new().generic(&[x(), x()]), &["matmul:f16", "matmul:f16"], 4).unwrap();

    #[autocast(f16, host = amp_test_host)]
    fn apply(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let h = x.matmul(x)?;
        f(&h)
    }
    ran(|| apply(&x(), |h| h.exp()), &["matmul:f16", "exp:f16"], 1).unwrap();
}

#[test]
fn nested_functions_are_outside() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        fn plain(x: &Tensor, w: &Tensor) -> Result<Tensor> {
            x.matmul(w)
        }
        plain(x, w)?.add(&x.matmul(w)?)
    }
    ran(|| f(&x(), &w()), &["matmul:f32", "matmul:f16", "add:f32"], 2).unwrap();
}

#[test]
fn nested_regions() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let h = x.matmul(w)?;
        let exact = amp_region!(f32, { h.matmul(w)?.exp()? });
        let other = amp_region!(bf16, exact.add(&x.matmul(w)?)?);
        h.add(&other)
    }
    ran(|| f(&x(), &w()), &["matmul:f16", "matmul:f32", "exp:f32", "matmul:bf16", "add:f32", "add:f32"], 4).unwrap();
}

#[test]
fn regions_in_plain_functions_leave_control_flow_alone() {
    fn f(x: &Tensor, w: &Tensor, stop: usize) -> Result<Option<Tensor>> {
        let mut last = None;
        for i in 0..3 {
            let h = amp_region!(f16, host = amp_test_host, {
                if i == stop {
                    break;
                }
                if stop == 7 {
                    return Ok(None);
                }
                x.matmul(w)?.relu()?
            });
            last = Some(h);
        }
        Ok(last)
    }
    assert!(ran(|| f(&x(), &w(), 0), &[], 0).unwrap().is_none());
    assert!(f(&x(), &w(), 7).unwrap().is_none());
    ran(|| f(&x(), &w(), 1), &["matmul:f16", "relu:f16"], 2).unwrap();
}

mod functional {
    use super::{Result, Tensor};

    pub fn softmax(x: &Tensor, axis: isize) -> Result<Tensor> {
        x.softmax(axis)
    }
}

#[test]
fn method_and_path_syntax() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let h = Tensor::matmul(x, w)?;
        let s = functional::softmax(&h, -1)?;
        let e = Tensor::exp(&h)?;
        <Tensor>::add(&s, &e)?.matmul(w)
    }
    let ops = ["matmul:f16", "softmax:f32", "exp:f32", "add:f32", "matmul:f16"];
    ran(|| f(&x(), &w()), &ops, 3).unwrap();
}

#[test]
fn operators_and_compound_assignment() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let mut sum = x.exp()?;
        sum += x.matmul(w)?;
        let h = (&x.matmul(w)? + &sum)?;
        (h * 0.5)? * 2.0
    }
    let ops = ["exp:f32", "matmul:f16", "add:f32", "matmul:f16", "add:f32", "scale:f32", "scale:f32"];
    ran(|| f(&x(), &w()), &ops, 2).unwrap();
}

#[test]
fn lists_and_several_operands_meet_at_the_widest() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let h = x.matmul(w)?;
        let e = x.exp()?;
        let l = h.lerp(&h, &h)?;
        let m = h.lerp(&e, &l)?;
        assert_eq!((l.dtype(), m.dtype()), (Dtype::F16, Dtype::F32));
        cat(&[&h, &e, &l, &m], 0)
    }
    let ops = ["matmul:f16", "exp:f32", "lerp:f16", "lerp:f16", "lerp:f32", "lerp:f32"];
    let all = [&ops[..], &["cat:f32"; 4]].concat();
    ran(|| f(&x(), &w()), &all, 2).unwrap();
}

#[test]
fn f64_is_never_touched_and_halves_do_not_meet() {
    #[autocast(f16, host = amp_test_host)]
    fn product(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        x.matmul(w)?.exp()
    }
    let wide = |t: Tensor| t.to_dtype(Dtype::F64);
    let (a, b) = (wide(x()), wide(w()));
    ran(|| product(&a, &b), &["matmul:f64", "exp:f64"], 0).unwrap();

    #[autocast(f16, host = amp_test_host)]
    fn sum(x: &Tensor, y: &Tensor) -> Result<Tensor> {
        x.add(y)
    }
    let halves = (x().to_dtype(Dtype::F16), x().to_dtype(Dtype::BF16));
    assert_eq!(sum(&halves.0, &halves.1), Err(HostError::Precisions("add", Dtype::F16, Dtype::BF16)));
}

#[test]
fn switched_at_run_time() {
    #[autocast(f16, enabled = on && rows > 2, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor, on: bool, rows: usize) -> Result<Tensor> {
        let h = x.matmul(w)?;
        Ok(h)
    }
    ran(|| f(&x(), &w(), true, 3), &["matmul:f16"], 2).unwrap();
    ran(|| f(&x(), &w(), false, 3), &["matmul:f32"], 0).unwrap();
    ran(|| f(&x(), &w(), true, 1), &["matmul:f32"], 0).unwrap();
}

#[test]
fn a_region_is_generic() {
    #[autocast(P, host = amp_test_host)]
    fn f<P: amp::AutocastPrecision>(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        x.matmul(w)?.exp()
    }
    ran(|| f::<amp::F16>(&x(), &w()), &["matmul:f16", "exp:f32"], 2).unwrap();
    ran(|| f::<amp::BF16>(&x(), &w()), &["matmul:bf16", "exp:f32"], 2).unwrap();
    ran(|| f::<amp::F32>(&x(), &w()), &["matmul:f32", "exp:f32"], 0).unwrap();
}

#[test]
fn overrides() {
    #[autocast(f16, host = amp_test_host, full(matmul), force_lower(exp), keep(add), skip(frobnicate))]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let h = x.matmul(w)?;
        let e = h.exp()?;
        assert_eq!(e.dtype(), Dtype::F16);
        assert!(h.add(&e).is_err());
        e.frobnicate()
    }
    // A forced operation rounds its input and its result; the arithmetic stays in F32.
    ran(|| f(&x(), &w()), &["matmul:f32", "exp:f32", "add:f32", "frobnicate:f16"], 2).unwrap();
}

amp_policy! {
    /// Everything elementary in F32.
    careful {
        full: [tanh, halve],
        lower: [twice],
        keep: [frobnicate],
    }
}

/// An operation of one's own.
#[amp_op(full)]
fn halve(x: &Tensor) -> Result<Tensor> {
    x * 0.5
}

#[amp_op(lower)]
fn twice(x: &Tensor, factor: f32) -> Result<Tensor> {
    x * (2.0 * factor)
}

#[test]
fn policies_know_functions_and_methods() {
    #[autocast(f16, host = amp_test_host, policy = careful)]
    fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        let h = x.matmul(w)?.tanh()?;
        let h = twice(&halve(&h)?, 1.0)?;
        h.frobnicate()
    }
    let ops = ["matmul:f16", "tanh:f32", "scale:f32", "scale:f16", "frobnicate:f16"];
    ran(|| f(&x(), &w()), &ops, 3).unwrap();

    fn g(x: &Tensor, w: &Tensor) -> Result<Tensor> {
        amp_region!(bf16, host = amp_test_host, policy = careful, { x.matmul(w)?.tanh() })
    }
    ran(|| g(&x(), &w()), &["matmul:bf16", "tanh:f32"], 2).unwrap();

    struct Inside;
    impl Inside {
        #[autocast(f16, policy = careful, host = amp_test_host)]
        fn method(&self, x: &Tensor) -> Result<Tensor> {
            x.matmul(x)?.tanh()
        }
    }
    ran(|| Inside.method(&x()), &["matmul:f16", "tanh:f32"], 1).unwrap();
}

#[test]
fn names_of_operations_on_other_types_are_untouched() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Money(i64);
    impl Money {
        fn exp(self) -> i64 {
            self.0
        }
        fn matmul(&self, other: Money) -> Money {
            Money(self.0 * other.0)
        }
    }
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, values: &[f32], money: Vec<Money>) -> Result<(f32, i64)> {
        let sum: f32 = values.iter().map(|v| v.exp()).sum();
        let power = 2usize.pow(3) as f32 + f32::exp(0.0) + 2.0f32.powf(2.0);
        let product = money[0].matmul(money[1]).exp();
        let mut own = Money(3);
        own.0 = own.matmul(Money(2)).0;
        x.exp()?;
        Ok((sum + power, product + own.exp()))
    }
    let (sum, product) = ran(|| f(&x(), &[0.0, 0.0], vec![Money(4), Money(5)]), &["exp:f32"], 0).unwrap();
    assert_eq!((sum, product), (2.0 + 8.0 + 1.0 + 4.0, 26));
}
