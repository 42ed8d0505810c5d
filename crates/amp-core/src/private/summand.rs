//! What an iterator gives to be summed where the sum is one of F32.

use super::{Late, TO_F32, To};
use crate::precision::F32;

/// A tensor, a reference to one, or the result that either is in.
pub trait Summand {
    /// It in F32.
    type Widened;
    /// Widens it.
    fn widened(self) -> Self::Widened;
}

impl<T: Late<To<F32>>> Summand for T {
    type Widened = T::Output;
    fn widened(self) -> T::Output {
        self.late(TO_F32)
    }
}

impl<T: Summand, E> Summand for Result<T, E> {
    type Widened = Result<T::Widened, E>;
    fn widened(self) -> Self::Widened {
        self.map(T::widened)
    }
}

/// An iterator whose elements are widened as they are summed.
pub fn summands<I: Iterator<Item: Summand>>(elements: I) -> impl Iterator<Item = <I::Item as Summand>::Widened> {
    elements.map(I::Item::widened)
}
