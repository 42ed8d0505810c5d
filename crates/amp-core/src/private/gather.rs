//! Iterators that are collected into what only the compiler knows: a field, an argument of somebody's own function.

use super::{Probe, Recast, To, to};
use crate::precision::F32;
use std::marker::PhantomData;

/// A `Result`, for the type of its error.
pub trait Fails {
    /// The error.
    type Error;
}

impl<V, E> Fails for Result<V, E> {
    type Error = E;
}

/// As [`leaving`](super::leaving), of an iterator over results that is collected where `E` is expected, behind a `?`.
#[inline]
pub const fn gathering<R: Fails, I, E>(_elements: &I, _expected: &Option<E>) -> Probe<I, Result<E, R::Error>> {
    Probe(PhantomData, PhantomData)
}

impl<I: Iterator, E: FromIterator<I::Item>> Probe<I, E> {
    /// Gives the elements as they are: what is expected is made of such.
    pub fn ready(self, elements: I) -> I {
        elements
    }
}

/// An iterator that makes what is expected when the tensors of its elements are widened.
pub trait ReadyWidened {
    /// The iterator.
    type Elements;
    /// One over widened elements.
    type Widened;
    /// Widens the elements.
    fn ready(self, elements: Self::Elements) -> Self::Widened;
}

impl<I: Iterator<Item: Recast<To<F32>, Output = W>>, W, E: FromIterator<W>> ReadyWidened for &Probe<I, E> {
    type Elements = I;
    type Widened = std::iter::Map<I, fn(I::Item) -> W>;
    fn ready(self, elements: I) -> Self::Widened {
        elements.map(|element| element.recast(to()))
    }
}

/// Any other iterator: the compiler says what is wrong with it.
pub trait ReadyAsIs {
    /// The iterator.
    type Elements;
    /// Gives the elements.
    fn ready(self, elements: Self::Elements) -> Self::Elements;
}

impl<I, E> ReadyAsIs for &mut Probe<I, E> {
    type Elements = I;
    fn ready(self, elements: I) -> I {
        elements
    }
}
