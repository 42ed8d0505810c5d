//! What happens to a block of scores, row by row: the step of an online softmax, and its gradient.

use crate::num::Real;
use crate::reduce::block::{Itself, dot_of, greatest, total};
use crate::simd::{Kernel, LANES, Lanes, Level, Simd};

/// A step of an online softmax: turns a row of scores times `scale` into exponentials relative to the largest so far, and
/// updates that and their sum.
///
/// Returns the factor by which everything summed before shrinks.
pub(super) struct Exponentials<'a, T> {
    pub row: &'a mut [T],
    pub scale: T,
    pub max: &'a mut T,
    pub sum: &'a mut T,
}

impl<T: Real> Kernel for Exponentials<'_, T> {
    type Output = T;
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> T {
        let Some(&first) = self.row.first() else { return T::ONE };
        let (vectors, rest) = self.row.as_chunks_mut::<LANES>();
        let scale = T::Lanes::<S>::splat(self.scale);
        // Lanes that stand for no key repeat the first one, and are left out of the sum. Nothing is written that is read
        // again in other pieces: such reads wait.
        let part = T::Lanes::<S>::load_part(rest, first) * scale;
        let here = vectors.iter().fold(part, |max, x| max.greater(T::Lanes::<S>::load(x) * scale));
        let here = greatest::<S, T>(here);
        let max = if here <= *self.max { *self.max } else { here };
        // A row without any allowed key stays at -inf; shifting by that would make NaN.
        let shift = if max == T::LEAST { T::ZERO } else { max };
        let lanes = T::Lanes::<S>::splat(shift);
        let mut sum = T::Lanes::<S>::splat(T::ZERO);
        for x in vectors {
            let e = (T::Lanes::<S>::load(x) * scale - lanes).exp();
            e.store(x);
            sum = sum + e;
        }
        if !rest.is_empty() {
            let e = (part - lanes).exp();
            e.store_part(rest);
            sum = sum + e.without(u16::MAX << rest.len());
        }
        let factor = (*self.max - shift).exp::<S>();
        *self.max = max;
        *self.sum = *self.sum * factor + total::<S, T>(sum);
        factor
    }
}

/// Multiplies a row by a factor.
pub(super) struct Scale<'a, T> {
    pub row: &'a mut [T],
    pub factor: T,
}

impl<T: Real> Kernel for Scale<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        for value in self.row {
            *value = *value * self.factor;
        }
    }
}

/// The dot product of two rows.
pub(super) struct Dot<'a, T>(pub &'a [T], pub &'a [T]);

impl<T: Real> Kernel for Dot<'_, T> {
    type Output = T;
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) -> T {
        dot_of::<S, T>(self.0, Itself, self.1)
    }
}

/// Recomputes the weights of a row from its scores, and the gradients of the scores from those of the weights.
pub(super) struct ScoreGrads<'a, T> {
    /// Scores but for the scale, which become weights.
    pub scores: &'a mut [T],
    /// Factor of the scores.
    pub scale: T,
    /// Gradients of the weights, which become those of the scores.
    pub grads: &'a mut [T],
    /// Logarithm of the sum of exponentials of the whole row.
    pub lse: T,
    /// Mean of the gradients of the whole row, by weight.
    pub delta: T,
}

impl<T: Real> Kernel for ScoreGrads<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let shift = if self.lse == T::LEAST { T::ZERO } else { self.lse };
        let (lse, delta) = (T::Lanes::<S>::splat(shift), T::Lanes::<S>::splat(self.delta));
        let scale = T::Lanes::<S>::splat(self.scale);
        let (scores, scores_rest) = self.scores.as_chunks_mut::<LANES>();
        let (grads, grads_rest) = self.grads.as_chunks_mut::<LANES>();
        for (score, grad) in scores.iter_mut().zip(grads) {
            let weight = (T::Lanes::<S>::load(score) * scale - lse).exp();
            weight.store(score);
            (weight * (T::Lanes::<S>::load(grad) - delta)).store(grad);
        }
        if !scores_rest.is_empty() {
            let weight = (T::Lanes::<S>::load_part(scores_rest, T::ZERO) * scale - lse).exp();
            weight.store_part(scores_rest);
            (weight * (T::Lanes::<S>::load_part(grads_rest, T::ZERO) - delta)).store_part(grads_rest);
        }
    }
}
