//! Running sums and products.

use super::{Cut, Lines, map_lines, map_strips};
use crate::convert::Cast;
use crate::num::{Num, Real, in_real};
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, Scan, Storage, View, scratch};

/// Running fold of `x` along `axis`, from the last element to the first when `reverse`.
///
/// Runs in F64 (wrapping I64); every element is rounded to `out` once. A running sum is one long chain, in which F32 would lose a
/// digit every few thousand terms.
pub fn scan(op: Scan, x: &View, axis: usize, reverse: bool, out: DType) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    if x.logical.is_float() && cut.is_side_by_side() {
        return side_by_side(op, x, axis, reverse, out);
    }
    if x.logical.is_float() {
        return in_real!(x.logical, A => end_to_end::<A, f64>(op, x, axis, reverse, out));
    }
    end_to_end::<i64, i64>(op, x, axis, reverse, out)
}

/// [`scan`] of one line after the other, in `C`.
fn end_to_end<A: Num + Cast<C>, C: Num + Cast<A>>(
    op: Scan,
    x: &View,
    axis: usize,
    reverse: bool,
    out: DType,
) -> Storage {
    match op {
        Scan::Sum => map_lines::<A>(x, axis, out, &|_, x, line| run(x, line, reverse, C::ZERO, C::add)),
        Scan::Prod => map_lines::<A>(x, axis, out, &|_, x, line| run(x, line, reverse, C::ONE, C::mul)),
    }
}

fn run<A: Cast<C>, C: Cast<A>>(x: &[A], line: &mut [A], reverse: bool, first: C, join: impl Fn(C, C) -> C) {
    let mut fold = first;
    let step = |(to, &x): (&mut A, &A)| {
        fold = join(fold, x.converted());
        *to = fold.converted();
    };
    if reverse { line.iter_mut().zip(x).rev().for_each(step) } else { line.iter_mut().zip(x).for_each(step) }
}

/// [`scan`] of lines that lie side by side, a row of all of them at a time: the same bits.
fn side_by_side(op: Scan, x: &View, axis: usize, reverse: bool, out: DType) -> Storage {
    let len = x.layout.shape[axis];
    let adds = op == Scan::Sum;
    in_real!(x.logical, A => map_strips([x], axis, len, out, &|[lines]: [&mut [A]; 1], strip| {
        scratch::with(strip.width, |folds| dispatch(Folds { adds, lines, folds, reverse }));
    }))
}

/// Running sums or products, carried in F64.
struct Folds<'a, A> {
    adds: bool,
    lines: &'a mut [A],
    folds: &'a mut [f64],
    reverse: bool,
}

impl<A: Real> Kernel for Folds<'_, A>
where
    f64: Cast<A>,
{
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { adds, lines, folds, reverse } = self;
        let rows = lines.len() / folds.len();
        folds.fill(if adds { 0.0 } else { 1.0 });
        for k in 0..rows {
            let row = &mut lines[if reverse { rows - 1 - k } else { k } * folds.len()..][..folds.len()];
            for (fold, x) in folds.iter_mut().zip(row) {
                let value: f64 = x.converted();
                *fold = if adds { *fold + value } else { *fold * value };
                *x = fold.converted();
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
