//! Positions of extremes.

use super::fold::{Axes, Fold, Leaf, fold_leaf};
use super::{Largest, Least};
use crate::num::{Num, in_num};
use crate::simd::Simd;
use crate::{Block, Storage, View};
use std::marker::PhantomData;

/// Position of the largest (or least) element along `axis`, as I64; the first of equals, and NaN before all numbers.
///
/// A view without axes gives 0; an empty axis gives -1.
pub fn arg_reduce(max: bool, x: &View, axis: usize) -> Storage {
    let axes = Axes::new(x, &[axis]);
    Storage::I64(
        in_num!(x.logical, A => if max { positions::<A, Largest>(x, &axes) } else { positions::<A, Least>(x, &axes) }),
    )
}

fn positions<A: Num, F: Fold<A>>(x: &View, axes: &Axes) -> Block<i64> {
    fold_leaf::<A, _>(x, axes, &Best::<F>(PhantomData)).into_iter().map(|(_, position)| position).collect()
}

/// The leaf that finds an extreme and the first place where it stands; -1 for none.
struct Best<F>(PhantomData<F>);

impl<A: Num, F: Fold<A>> Leaf<A> for Best<F> {
    type Partial = (A, i64);

    fn none(&self) -> (A, i64) {
        (F::START, -1)
    }

    #[inline(always)]
    fn block<S: Simd>(&self, first: usize, block: &[A]) -> (A, i64) {
        let best = A::fold::<S, F>(block);
        let here = block.iter().position(|&x| x == best || x.is_nan()).unwrap_or(0);
        (best, (first + here) as i64)
    }

    fn join(&self, a: (A, i64), b: (A, i64)) -> (A, i64) {
        let keeps = a.0.is_nan() || F::join(a.0, b.0) == a.0;
        if a.1 >= 0 && keeps { a } else { b }
    }
}
