//! Running sums and products.

use super::{Cut, Lines, map_lines, map_strips};
use crate::convert::Cast;
use crate::num::{Num, Real, in_real};
use crate::scratch::Plain;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, Scan, Storage, View, scratch};

/// Running fold of `x` along `axis`, from the last element to the first when `reverse`.
///
/// Runs in F64 (wrapping I64); every element is rounded to `out` once. A running sum is one long chain, in which F32 would lose a
/// digit every few thousand terms.
pub fn scan(op: Scan, x: &View, axis: usize, reverse: bool, out: DType) -> Storage {
    if x.logical.is_float() {
        return in_real!(x.logical, A => scan_in::<A, f64>(op, x, axis, reverse, out));
    }
    scan_in::<i64, i64>(op, x, axis, reverse, out)
}

/// [`scan`] carried in `C`.
fn scan_in<A: Num + Cast<C>, C: Num + Plain + Cast<A>>(
    op: Scan,
    x: &View,
    axis: usize,
    reverse: bool,
    out: DType,
) -> Storage {
    let (cut, adds) = (Cut::new(&x.layout.shape, axis), op == Scan::Sum);
    if cut.is_side_by_side() {
        return map_strips([x], axis, cut.len, out, &|[lines]: [&mut [A]; 1], strip| {
            scratch::with(strip.width, |folds: &mut [C]| dispatch(Folds { adds, lines, folds, reverse }));
        });
    }
    map_lines::<A>(x, cut.len, out, &|_, x, y| {
        for (x, y) in x.chunks(cut.len).zip(y.chunks_mut(cut.len)) {
            if adds { run(x, y, reverse, C::ZERO, C::add) } else { run(x, y, reverse, C::ONE, C::mul) }
        }
    })
}

fn run<A: Cast<C>, C: Cast<A>>(x: &[A], line: &mut [A], reverse: bool, first: C, join: impl Fn(C, C) -> C) {
    let mut fold = first;
    let step = |(to, &x): (&mut A, &A)| {
        fold = join(fold, x.converted());
        *to = fold.converted();
    };
    if reverse { line.iter_mut().zip(x).rev().for_each(step) } else { line.iter_mut().zip(x).for_each(step) }
}

/// Running sums or products of lines that lie side by side, a row of all of them at a time: the bits of [`run`].
struct Folds<'a, A, C> {
    adds: bool,
    lines: &'a mut [A],
    folds: &'a mut [C],
    reverse: bool,
}

impl<A: Num + Cast<C>, C: Num + Cast<A>> Kernel for Folds<'_, A, C> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { adds, lines, folds, reverse } = self;
        let rows = lines.len() / folds.len();
        folds.fill(if adds { C::ZERO } else { C::ONE });
        for k in 0..rows {
            let row = &mut lines[if reverse { rows - 1 - k } else { k } * folds.len()..][..folds.len()];
            for (fold, x) in folds.iter_mut().zip(row) {
                let value: C = x.converted();
                *fold = if adds { fold.add(value) } else { fold.mul(value) };
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
            scratch::with(strip.width, |before| dispatch(ProductGrads { x, g, before }));
        }));
    }
    let len = cut.len;
    in_real!(x.logical, A => {
        let lines = Lines::new(x, axis);
        map_lines::<A>(grad, len, out, &|first, grad, g| {
            g.copy_from_slice(grad);
            scratch::with(g.len(), |x: &mut [A]| {
                let x = lines.read_all(first, x);
                x.chunks(len).zip(g.chunks_mut(len)).for_each(|(x, g)| product_grad(x, g));
            });
        })
    })
}

fn product_grad<A: Real>(x: &[A], g: &mut [A]) {
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

/// [`product_grad`] of lines that lie side by side, a row of all of them at a time: the same bits.
struct ProductGrads<'a, A> {
    x: &'a [A],
    g: &'a mut [A],
    /// Room for a row.
    before: &'a mut [A],
}

impl<A: Real> Kernel for ProductGrads<'_, A> {
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
