//! Running sums and products.

use super::{Cut, Lines, map_lines};
use crate::num::{Num, Real, in_num, in_real};
use crate::{DType, Scan, Storage, View};

/// Running fold of `x` along `axis`, from the last element to the first when `reverse`.
///
/// Runs in F32 (F64, wrapping I64); every element is rounded to `out` once. Sums of up to F32 are carried in F64: a
/// running sum is one long chain, in which F32 would lose a digit every few thousand terms.
pub fn scan(op: Scan, x: &View, axis: usize, reverse: bool, out: DType) -> Storage {
    if op == Scan::Sum && x.logical.is_float() && x.logical != DType::F64 {
        return map_lines::<f32>(x, axis, out, &|_, x, line| sum_in_f64(x, line, reverse));
    }
    in_num!(x.logical, A => match op {
        Scan::Sum => map_lines::<A>(x, axis, out, &|_, x, line| run(x, line, reverse, A::add)),
        Scan::Prod => map_lines::<A>(x, axis, out, &|_, x, line| run(x, line, reverse, A::mul)),
    })
}

fn sum_in_f64(x: &[f32], line: &mut [f32], reverse: bool) {
    line.copy_from_slice(x);
    let mut sum = 0.0;
    let step = |x: &mut f32| {
        sum += f64::from(*x);
        *x = sum as f32;
    };
    if reverse { line.iter_mut().rev().for_each(step) } else { line.iter_mut().for_each(step) }
}

fn run<A: Num>(x: &[A], line: &mut [A], reverse: bool, join: impl Fn(A, A) -> A) {
    line.copy_from_slice(x);
    let step = |acc: &mut Option<A>, x: &mut A| {
        *x = acc.map_or(*x, |a| join(a, *x));
        *acc = Some(*x);
    };
    let mut acc = None;
    if reverse {
        line.iter_mut().rev().for_each(|x| step(&mut acc, x))
    } else {
        line.iter_mut().for_each(|x| step(&mut acc, x))
    }
}

/// Gradient of a running product of `x` along `axis` with respect to `x`, from the gradient of the products.
///
/// Nothing is divided, so zeros are exact: the product of what lies before times a sum over what follows. The gradient of
/// a whole product is that of the last running product.
pub fn cumprod_grad(x: &View, grad: &View, axis: usize, out: DType) -> Storage {
    let len = Cut::new(&x.layout.shape, axis).len;
    in_real!(x.logical, A => {
        let lines = Lines::new(x, axis);
        map_lines::<A>(grad, axis, out, &|number, grad, g| {
            let mut x = vec![A::ZERO; len];
            g.copy_from_slice(grad);
            product_slopes(lines.read(number, &mut x), g);
        })
    })
}

fn product_slopes<A: Real>(x: &[A], g: &mut [A]) {
    // g ← Σ over later products of their gradient, each divided by everything up to here.
    for i in (1..g.len()).rev() {
        g[i - 1] += x[i] * g[i];
    }
    let mut before = A::ONE;
    for (g, &x) in g.iter_mut().zip(x) {
        *g = *g * before;
        before = before * x;
    }
}
