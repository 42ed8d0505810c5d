//! Vectors of pairs, of a tensor and something else, that are given to where the compiler expects ones of F32.

use super::{Probe, Recast, to};
use crate::precision::{AutocastPrecision, F32};
use crate::tensor::Tensor;

/// Such a vector, whose tensors are at `PLACE` in the pairs.
///
/// The types alone tell what is beside them: a number that is written without a type takes the one that is expected there,
/// not that of an integer which nobody asks for.
pub trait LeavesPairs<const PLACE: usize> {
    /// The vector.
    type Value;
    /// What is given.
    type Given;
    /// Gives the pairs with their tensors widened.
    fn leave(self, pairs: Self::Value) -> Self::Given;
    /// Does the same where they may be a reference, which they are not.
    fn hand(self, pairs: Self::Value, slot: &mut Option<()>) -> Self::Given;
}

macro_rules! pairs {
    ($($place:literal: $from:ty => $expected:ty, $pair:pat => $widened:expr;)*) => { $(
        impl<A, P: AutocastPrecision> LeavesPairs<$place> for Probe<Vec<$from>, Vec<$expected>> {
            type Value = Vec<$from>;
            type Given = Vec<$expected>;
            fn leave(self, pairs: Self::Value) -> Self::Given {
                pairs.into_iter().map(|$pair| $widened).collect()
            }
            fn hand(self, pairs: Self::Value, _slot: &mut Option<()>) -> Self::Given {
                self.leave(pairs)
            }
        }
    )* };
}
pairs! {
    0: (Tensor<P>, A) => (Tensor<F32>, A), (tensor, beside) => (tensor.recast(to::<F32>()), beside);
    1: (A, Tensor<P>) => (A, Tensor<F32>), (beside, tensor) => (beside, tensor.recast(to::<F32>()));
}
