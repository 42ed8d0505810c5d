//! Running sums and products.

use super::{Cut, Lines, map_lines, map_strips};
use crate::num::{Num, Real, in_num, in_real};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, Scan, Storage, View, scratch};

/// Running fold of `x` along `axis`, from the last element to the first when `reverse`.
///
/// Runs in F32 (F64, wrapping I64); every element is rounded to `out` once. Sums of up to F32 are carried in F64: a
/// running sum is one long chain, in which F32 would lose a digit every few thousand terms.
pub fn scan(op: Scan, x: &View, axis: usize, reverse: bool, out: DType) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    if x.logical.is_float() && cut.is_side_by_side() {
        return side_by_side(op, x, axis, reverse, out);
    }
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

/// [`scan`] of lines that lie side by side, a row of all of them at a time: the same bits.
fn side_by_side(op: Scan, x: &View, axis: usize, reverse: bool, out: DType) -> Storage {
    let len = x.layout.shape[axis];
    if op == Scan::Sum && x.logical != DType::F64 {
        return map_strips([x], axis, len, out, &|[lines]: [&mut [f32]; 1], strip| {
            scratch::with(strip.width, |sums| dispatch(Sums { lines, sums, reverse }));
        });
    }
    in_real!(x.logical, A => map_strips([x], axis, len, out, &|[lines]: [&mut [A]; 1], strip| {
        dispatch(Folds { adds: op == Scan::Sum, lines, width: strip.width, reverse });
    }))
}

/// Running sums, carried in F64.
struct Sums<'a> {
    lines: &'a mut [f32],
    sums: &'a mut [f64],
    reverse: bool,
}

/// Running sums or products.
struct Folds<'a, A> {
    adds: bool,
    lines: &'a mut [A],
    width: usize,
    reverse: bool,
}

impl Kernel for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { lines, sums, reverse } = self;
        let rows = lines.len() / sums.len();
        sums.fill(0.0);
        for k in 0..rows {
            let row = &mut lines[if reverse { rows - 1 - k } else { k } * sums.len()..][..sums.len()];
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += f64::from(*x);
                *x = *sum as f32;
            }
        }
    }
}

impl<A: Real> Kernel for Folds<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { adds, lines, width, reverse } = self;
        let rows = lines.len() / width;
        for k in 1..rows {
            let at = if reverse { rows - k } else { k } * width;
            let (before, after) = lines.split_at_mut(at);
            let (last, next) = (&mut before[at - width..], &mut after[..width]);
            let (fold, row) = if reverse { (next, last) } else { (last, next) };
            if adds {
                row.iter_mut().zip(fold).for_each(|(x, sum)| *x = *sum + *x);
            } else {
                row.iter_mut().zip(fold).for_each(|(x, product)| *x = *product * *x);
            }
        }
    }
}

/// Gradient of a running product of `x` along `axis` with respect to `x`, from the gradient of the products.
///
/// Nothing is divided, so zeros are exact: the product of what lies before times a sum over what follows. The gradient of
/// a whole product is that of the last running product.
pub fn cumprod_grad(x: &View, grad: &View, axis: usize, out: DType) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    if cut.is_side_by_side() {
        return in_real!(x.logical, A => map_strips([grad, x], axis, cut.len, out, &|[g, x]: [&mut [A]; 2], strip| {
            scratch::with(strip.width, |before| dispatch(Slopes { x, g, before }));
        }));
    }
    let len = cut.len;
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

/// [`product_slopes`] of lines that lie side by side, a row of all of them at a time: the same bits.
struct Slopes<'a, A> {
    x: &'a [A],
    g: &'a mut [A],
    /// Room for a row.
    before: &'a mut [A],
}

impl<A: Real> Kernel for Slopes<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { x, g, before } = self;
        let width = before.len();
        for i in (1..x.len() / width).rev() {
            let (earlier, g) = g.split_at_mut(i * width);
            for ((to, &x), &g) in earlier[(i - 1) * width..].iter_mut().zip(&x[i * width..]).zip(&*g) {
                *to += x * g;
            }
        }
        before.fill(A::ONE);
        for (g, x) in g.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            for ((g, before), &x) in g.iter_mut().zip(&mut *before).zip(x) {
                (*g, *before) = (*g * *before, *before * x);
            }
        }
    }
}
