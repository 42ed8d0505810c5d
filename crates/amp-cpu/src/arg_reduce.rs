//! Positions of extremes.

use crate::fold::{Axes, Fold, fold_block, fold_with};
use crate::num::{Num, in_num};
use crate::reduce::{Largest, Least};
use crate::{Storage, View};

/// Position of the largest (or least) element along `axis`, as I64; the first of equals, and NaN before all numbers.
///
/// A view without axes gives 0; an empty axis gives -1.
pub fn arg_reduce(max: bool, x: &View, axis: usize) -> Storage {
    let axes = Axes::new(x, &[axis]);
    Storage::I64(
        in_num!(x.logical, A => if max { positions::<A, Largest>(x, &axes) } else { positions::<A, Least>(x, &axes) }),
    )
}

fn positions<A: Num, F: Fold<A>>(x: &View, axes: &Axes) -> Vec<i64> {
    let leaf = |first: usize, block: &[A]| {
        let best = fold_block(block, F::START, F::map, F::join);
        let here = block.iter().position(|&x| x == best || x.is_nan()).unwrap_or(0);
        (best, (first + here) as i64)
    };
    let join = |a: (A, i64), b: (A, i64)| {
        let same = a.0 == b.0 || a.0.is_nan() || F::join(a.0, b.0) == a.0;
        if a.1 >= 0 && same { a } else { b }
    };
    fold_with(x, axes, (F::START, -1), leaf, join).into_iter().map(|(_, position)| position).collect()
}
