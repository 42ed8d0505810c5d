//! Mean and variance along axes.

use super::block::{BLOCK, Deviation, Itself, Square, Tree, sum_of};
use super::converted;
use super::fold::{Axes, Leaf, fold_leaf};
use crate::num::{Real, in_real};
use crate::simd::Simd;
use crate::{DType, Storage, View};

/// Mean and variance over `axes`; outputs have the remaining axes, in order.
///
/// The variance divides the sum of squared deviations by `max(count - correction, 0)`. Deviations are taken from the
/// mean of their own block and blocks are merged with Chan's formula, in F32 (F64 for F64): no `E[x²] - E[x]²`.
pub fn variance(x: &View, axes: &[usize], correction: f64, out: DType) -> (Storage, Storage) {
    let axes = Axes::new(x, axes);
    in_real!(x.logical, A => {
        let moments = moments::<A>(x, &axes);
        let mean = moments.iter().map(|m| if axes.count == 0 { A::NAN } else { m.mean }).collect();
        let degrees = (axes.count as f64 - correction).max(0.0) as A;
        let var = moments.iter().map(|m| m.squares / degrees).collect();
        (converted::<A>(mean, out), converted::<A>(var, out))
    })
}

/// Deviations from the mean, in parts of it, that may be nothing but rounding.
const RELATIVE: f64 = 1e-5;

/// Count, mean and sum of squared deviations of some elements.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moments<A> {
    pub count: A,
    pub mean: A,
    pub squares: A,
}

impl<A: Real> Moments<A> {
    /// Moments of one block, in two passes over it.
    #[inline(always)]
    pub fn of<S: Simd>(block: &[A]) -> Self {
        let count = A::of(block.len() as f64);
        let mean = sum_of::<S, A>(block, Itself) / count;
        let squares = sum_of::<S, A>(block, Square(mean));
        // Where all are alike, what deviates is the rounding of the mean.
        let taken = Self { count, mean, squares };
        match taken.may_be_rounding() {
            true if block.iter().all(|x| *x == block[0]) => Self { count, mean: block[0], squares: A::ZERO },
            true => taken.corrected(sum_of::<S, A>(block, Deviation(mean))),
            false => taken,
        }
    }

    /// Whether so little deviates from the mean that its rounding may be all of it.
    #[inline(always)]
    pub fn may_be_rounding(&self) -> bool {
        let little = self.mean * A::of(RELATIVE);
        self.squares <= self.count * little * little
    }

    /// Moments whose mean was rounded; `left` is the sum of what deviates from it, which is 0 for the exact mean.
    #[inline(always)]
    pub fn corrected(self, left: A) -> Self {
        let (shift, squares) = (left / self.count, self.squares - left * left / self.count);
        // NaN stays NaN, which `max` would hide.
        Self { mean: self.mean + shift, squares: if squares < A::ZERO { A::ZERO } else { squares }, ..self }
    }

    /// Moments of a line of any length.
    #[inline(always)]
    pub fn of_line<S: Simd>(line: &[A]) -> Self {
        if line.len() <= BLOCK {
            return Self::of::<S>(line);
        }
        let mut tree = Tree::new(Self::default());
        for block in line.chunks(BLOCK) {
            tree.push(Self::of::<S>(block), Self::join);
        }
        tree.finish(Self::join)
    }

    /// Moments of both together (Chan, Golub, LeVeque).
    #[inline(always)]
    pub fn join(self, other: Self) -> Self {
        let count = self.count + other.count;
        if count == A::default() {
            return self;
        }
        let (delta, share) = (other.mean - self.mean, other.count / count);
        Self {
            count,
            mean: self.mean + delta * share,
            squares: self.squares + other.squares + delta * delta * self.count * share,
        }
    }
}

/// The leaf that takes moments.
struct Taken;

impl<A: Real> Leaf<A> for Taken {
    type Partial = Moments<A>;

    fn none(&self) -> Moments<A> {
        Moments::default()
    }

    #[inline(always)]
    fn block<S: Simd>(&self, _: usize, block: &[A]) -> Moments<A> {
        Moments::of::<S>(block)
    }

    fn join(&self, a: Moments<A>, b: Moments<A>) -> Moments<A> {
        a.join(b)
    }
}

/// Moments of every output's elements.
pub(crate) fn moments<A: Real>(x: &View, axes: &Axes) -> Vec<Moments<A>> {
    fold_leaf(x, axes, &Taken)
}
