//! Control flow: joins, loops, closures, and what is narrowed how often.

#![allow(clippy::never_loop)] // a loop left by a label is what is tested

mod common;

use amp::autocast;
use amp_test_host::{Dtype, HostError, Tensor};
use common::ran;

type Result<T> = std::result::Result<T, HostError>;

fn x() -> Tensor {
    Tensor::sample(3, 3, 1)
}

fn w() -> Tensor {
    Tensor::sample(3, 3, 2)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Exp,
    Product,
    Plain,
}

#[test]
fn branches_join_at_f32() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor, way: Way) -> Result<Tensor> {
        let h = if way == Way::Exp {
            x.exp()?
        } else if way == Way::Product {
            x.matmul(w)?
        } else {
            x.matmul(w)?.relu()?
        };
        assert_eq!(h.dtype(), Dtype::F32);
        Ok(h)
    }
    ran(|| f(&x(), &w(), Way::Exp), &["exp:f32"], 0).unwrap();
    ran(|| f(&x(), &w(), Way::Product), &["matmul:f16"], 2).unwrap();
    ran(|| f(&x(), &w(), Way::Plain), &["matmul:f16", "relu:f16"], 2).unwrap();
}

#[test]
fn if_let_chains() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: Option<&Tensor>, w: Option<&Tensor>) -> Result<Tensor> {
        if let Some(x) = x
            && let Some(w) = w
            && x.matmul(w)?.rows() == 3
        {
            x.matmul(w)?.matmul(w)
        } else if let Some(x) = x {
            x.exp()
        } else {
            Ok(self::x())
        }
    }
    ran(|| f(Some(&x()), Some(&w())), &["matmul:f16"; 3], 5).unwrap();
    ran(|| f(Some(&x()), None), &["exp:f32"], 0).unwrap();
    ran(|| f(None, None), &[], 0).unwrap();
}

#[test]
fn match_with_guards() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor, way: Way) -> Result<Tensor> {
        let h = match way {
            Way::Exp if x.rows() == 3 => x.exp()?,
            Way::Exp => return Ok(x.clone()),
            Way::Product | Way::Plain => x.matmul(w)?,
        };
        assert_eq!(h.dtype(), Dtype::F32);
        h.relu()
    }
    ran(|| f(&x(), &w(), Way::Exp), &["exp:f32", "relu:f32"], 0).unwrap();
    ran(|| f(&x(), &w(), Way::Plain), &["matmul:f16", "relu:f32"], 2).unwrap();
}

#[test]
fn for_loop_keeps_its_variable_in_f32() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, ws: &[Tensor]) -> Result<Tensor> {
        let mut h = x.clone();
        for w in ws {
            h = h.matmul(w)?.tanh()?;
        }
        assert_eq!(h.dtype(), Dtype::F32);
        Ok(h)
    }
    // Each turn narrows `h` and its weight; on typed tensors the first of the two is the storage it came from.
    ran(|| f(&x(), &[w(), w()]), &["matmul:f16", "tanh:f16", "matmul:f16", "tanh:f16"], 4).unwrap();
}

#[test]
fn weights_are_narrowed_outside_of_loops() {
    #[autocast(f16, host = amp_test_host)]
    fn rnn(xs: &[Tensor], wx: &Tensor, wh: &Tensor) -> Result<Tensor> {
        let mut h = x();
        for x in xs {
            h = x.matmul(wx)?.add(&h.matmul(wh)?)?.tanh()?;
        }
        Ok(h)
    }
    let steps = ["matmul:f16", "matmul:f16", "add:f16", "tanh:f16"].repeat(3);
    ran(|| rnn(&[x(), x(), x()], &w(), &w()), &steps, 2 + 2 * 3).unwrap();
}

#[test]
fn while_loop_and_while_let() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, mut queue: Vec<Tensor>) -> Result<Tensor> {
        let mut h = x.clone();
        let mut turns = 0;
        while let Some(w) = queue.pop() {
            h = h.matmul(&w)?;
            turns += 1;
        }
        while turns > 0 {
            turns -= 1;
            h = h.relu()?;
        }
        Ok(h)
    }
    ran(|| f(&x(), vec![w(), w()]), &["matmul:f16", "matmul:f16", "relu:f32", "relu:f32"], 4).unwrap();
}

#[test]
fn loops_with_break_values_and_labels() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor, early: bool) -> Result<Tensor> {
        let h = 'outer: loop {
            if early {
                break x.exp()?;
            }
            for _ in 0..2 {
                break 'outer x.matmul(w)?;
            }
        };
        assert_eq!(h.dtype(), Dtype::F32);
        let k = 'block: {
            if early {
                break 'block h.matmul(w)?;
            }
            h.exp()?
        };
        assert_eq!(k.dtype(), Dtype::F32);
        Ok(k)
    }
    // Both operands of the product are narrowed ahead of the loop, whichever way it ends.
    ran(|| f(&x(), &w(), true), &["exp:f32", "matmul:f16"], 3).unwrap();
    ran(|| f(&x(), &w(), false), &["matmul:f16", "exp:f32"], 2).unwrap();
}

#[test]
fn closures_borrow_a_narrowing_made_outside() {
    #[autocast(f16, host = amp_test_host)]
    fn heads(x: &Tensor, ws: &[Tensor]) -> Result<Vec<Tensor>> {
        let head = |w: &Tensor| x.matmul(w);
        ws.iter().map(head).collect()
    }
    ran(|| heads(&x(), &[w(), w(), w()]), &["matmul:f16"; 3], 4).unwrap();
}

#[test]
fn move_closures_narrow_inside() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: Tensor, w: &Tensor) -> Result<impl Fn() -> Result<Tensor>> {
        let w = w.clone();
        Ok(move || x.matmul(&w)?.matmul(&w))
    }
    let w = w();
    let product = f(x(), &w).unwrap();
    ran(&product, &["matmul:f16", "matmul:f16"], 2).unwrap();
    ran(product, &["matmul:f16", "matmul:f16"], 2).unwrap();
}

#[test]
fn iterator_adaptors() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, ws: &[Tensor]) -> Result<Tensor> {
        let count: usize = ws.iter().map(Tensor::rows).sum();
        assert_eq!(count, 6);
        let total = ws.iter().map(|w| x.matmul(w)).try_fold(x.clone(), |all, part| all.add(&part?))?;
        ws.iter().filter(|w| w.rows() == 3).take(1).try_for_each(|w| x.matmul(w).map(drop))?;
        Ok(total)
    }
    ran(|| f(&x(), &[w(), w()]), &["matmul:f16", "add:f32", "matmul:f16", "add:f32", "matmul:f16"], 4).unwrap();
}

#[test]
fn early_return_and_recursion() {
    #[autocast(f16, host = amp_test_host)]
    fn power(x: &Tensor, n: u32) -> Result<Tensor> {
        if n == 1 {
            return x.relu();
        }
        let rest = power(x, n - 1)?;
        x.matmul(&rest)
    }
    ran(|| power(&x(), 3), &["relu:f32", "matmul:f16", "matmul:f16"], 3).unwrap();
}

#[test]
fn async_functions() {
    #[autocast(f16, host = amp_test_host)]
    async fn f(x: Tensor, w: &Tensor) -> Result<Tensor> {
        let h = async { x.matmul(w) }.await?;
        h.exp()
    }
    let w = w();
    let run = || {
        let mut future = std::pin::pin!(f(x(), &w));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(out) => out,
            std::task::Poll::Pending => panic!("nothing waits here"),
        }
    };
    ran(run, &["matmul:f16", "exp:f32"], 2).unwrap();
}

#[test]
fn exclusive_branches_share_nothing() {
    #[autocast(f16, host = amp_test_host)]
    fn f(x: &Tensor, w: &Tensor, way: Way) -> Result<Tensor> {
        match way {
            Way::Exp => x.matmul(w),
            Way::Product => x.matmul(w)?.matmul(w),
            Way::Plain => x.exp(),
        }
    }
    ran(|| f(&x(), &w(), Way::Exp), &["matmul:f16"], 2).unwrap();
    ran(|| f(&x(), &w(), Way::Product), &["matmul:f16"; 2], 2).unwrap();
    ran(|| f(&x(), &w(), Way::Plain), &["exp:f32"], 0).unwrap();
}
