//! Sums, products and extremes along axes.

pub(crate) mod block;
mod columns;
pub(crate) mod fold;
mod position;
#[cfg(test)]
mod tests;
mod variance;

pub use position::arg_reduce;
pub use variance::variance;
pub(crate) use variance::{Moments, moments};

use crate::num::{Num, Real, in_num, in_real};
use crate::simd::{Lanes, Simd};
use crate::split::for_chunks;
use crate::{DType, Reduce, Storage, View};
use fold::{Axes, Fold, fold};

/// Folds `axes` of `x`; the output has the remaining axes, in order.
///
/// F16, BF16 and F32 accumulate in F32 (F64 in F64, integers and truth values in wrapping I64) in a balanced tree, so
/// that the error grows with the logarithm of the count. The result is rounded to `out` once, a mean after its division.
/// Nothing reduced gives 0, 1 for a product, NaN for a mean, and the infinities for extremes.
pub fn reduce(op: Reduce, x: &View, axes: &[usize], out: DType) -> Storage {
    let axes = Axes::new(x, axes);
    match op {
        Reduce::Mean => in_real!(x.logical, A => mean::<A>(x, &axes, out)),
        _ => in_num!(x.logical, A => converted(fold_op::<A>(op, x, &axes), out)),
    }
}

fn mean<A: Real>(x: &View, axes: &Axes, out: DType) -> Storage {
    let mut sums = fold::<A, Sum>(x, axes);
    let count = A::of(axes.count as f64);
    sums.iter_mut().for_each(|s| *s = *s / count);
    converted(sums, out)
}

fn fold_op<A: Num>(op: Reduce, x: &View, axes: &Axes) -> Vec<A> {
    match op {
        Reduce::Sum | Reduce::Mean => fold::<A, Sum>(x, axes),
        Reduce::Prod => fold::<A, Product>(x, axes),
        Reduce::Max => fold::<A, Largest>(x, axes),
        Reduce::Min => fold::<A, Least>(x, axes),
        Reduce::SumSquares => fold::<A, Squares>(x, axes),
        Reduce::SumAbs => fold::<A, Magnitudes>(x, axes),
        Reduce::All => fold::<A, All>(x, axes),
        Reduce::Any => fold::<A, Any>(x, axes),
    }
}

/// `values` in the type `out`, without a copy where they have it already.
pub(crate) fn converted<A: Num>(values: Vec<A>, out: DType) -> Storage {
    if out == A::DTYPE {
        return A::storage(values);
    }
    let mut storage = Storage::unwritten(out, values.len());
    const CHUNK: usize = 4096;
    for_chunks(&mut storage, CHUNK, &|i, mut piece| {
        let first = i * CHUNK;
        A::narrow(&values[first..first + piece.len()], &mut piece);
    });
    storage
}

macro_rules! folds {
    ($($(#[$doc:meta])* $name:ident: $start:ident,
        |$x:ident| $map:expr, |$a:ident, $b:ident| $join:expr $(, [$map_lanes:expr, $join_lanes:expr])?;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl<A: Num> Fold<A> for $name {
            const START: A = A::$start;

            #[inline(always)]
            fn map($x: A) -> A {
                $map
            }

            #[inline(always)]
            fn join($a: A, $b: A) -> A {
                $join
            }

            $(
                #[inline(always)]
                fn map_lanes<S: Simd>($x: A::Lanes<S>) -> A::Lanes<S>
                where
                    A: Real,
                {
                    $map_lanes
                }

                #[inline(always)]
                fn join_lanes<S: Simd>($a: A::Lanes<S>, $b: A::Lanes<S>) -> A::Lanes<S>
                where
                    A: Real,
                {
                    $join_lanes
                }
            )?
        }
    )*};
}

folds! {
    /// `a + b`
    Sum: ZERO, |x| x, |a, b| a.add(b), [x, a + b];
    /// `a * b`
    Product: ONE, |x| x, |a, b| a.mul(b), [x, a * b];
    /// The greater; NaN wins.
    Largest: LEAST, |x| x, |a, b| if (b > a) | b.is_nan() { b } else { a }, [x, a.greatest(b)];
    /// The lesser; NaN wins.
    Least: GREATEST, |x| x, |a, b| if (b < a) | b.is_nan() { b } else { a }, [x, a.least(b)];
    /// Sum of squares.
    Squares: ZERO, |x| x.mul(x), |a, b| a.add(b), [x * x, a + b];
    /// Sum of magnitudes.
    Magnitudes: ZERO, |x| x.magnitude(), |a, b| a.add(b), [x.greater(x * Lanes::splat(A::of(-1.0))), a + b];
    /// 1 if all are non-zero, else 0.
    All: ONE, |x| if x == A::ZERO { A::ZERO } else { A::ONE }, |a, b| a.mul(b);
    /// 1 if any is non-zero, else 0.
    Any: ZERO, |x| if x == A::ZERO { A::ZERO } else { A::ONE }, |a, b| if a > b { a } else { b };
}
