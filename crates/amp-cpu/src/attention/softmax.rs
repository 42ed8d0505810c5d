//! Exponentials of a block of scores, row by row.

use crate::num::Real;
use crate::simd::{Kernel, Simd};

/// Partial results kept side by side, so that a fold over a row is one over vectors; the same for every level.
const LANES: usize = 16;

/// Turns a row of scores into exponentials relative to the largest score so far, and updates that and their sum.
///
/// Returns the factor by which everything summed before shrinks.
pub(super) struct Exponentials<'a, T> {
    pub row: &'a mut [T],
    pub most: &'a mut T,
    pub total: &'a mut T,
}

impl<T: Real> Kernel for Exponentials<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run<S: Simd>(self) -> T {
        let larger = |a: T, b: T| if b > a { b } else { a };
        let most = fold(self.row, *self.most, larger);
        // A row without any allowed key stays at -inf; shifting by that would make NaN.
        let shift = if most == T::LEAST { T::ZERO } else { most };
        for score in self.row.iter_mut() {
            *score = (*score - shift).exp::<S>();
        }
        let factor = (*self.most - shift).exp::<S>();
        *self.most = most;
        *self.total = *self.total * factor + fold(self.row, T::ZERO, |a, b| a + b);
        factor
    }
}

#[inline(always)]
fn fold<T: Real>(row: &[T], start: T, join: impl Fn(T, T) -> T) -> T {
    let mut lanes = [start; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = join(*lane, value);
        }
    }
    let joined = lanes[1..].iter().fold(lanes[0], |a, &b| join(a, b));
    rest.iter().fold(joined, |a, &b| join(a, b))
}

/// Multiplies a row by a factor.
pub(super) struct Scale<'a, T> {
    pub row: &'a mut [T],
    pub factor: T,
}

impl<T: Real> Kernel for Scale<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for value in self.row {
            *value = *value * self.factor;
        }
    }
}

/// Recomputes the weights of a row from its scores, and the slopes of the scores from those of the weights.
pub(super) struct Slopes<'a, T> {
    /// Scores, which become weights.
    pub scores: &'a mut [T],
    /// Slopes of the weights, which become those of the scores.
    pub slopes: &'a mut [T],
    /// Logarithm of the sum of exponentials of the whole row.
    pub lse: T,
    /// Mean of the slopes of the whole row, by weight.
    pub mean: T,
}

impl<T: Real> Kernel for Slopes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let shift = if self.lse == T::LEAST { T::ZERO } else { self.lse };
        for (score, slope) in self.scores.iter_mut().zip(self.slopes) {
            let weight = (*score - shift).exp::<S>();
            *score = weight;
            *slope = weight * (*slope - self.mean);
        }
    }
}
