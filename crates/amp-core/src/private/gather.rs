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
    /// Collects the elements as they are.
    pub fn gather(self, elements: I) -> E {
        elements.collect()
    }
}

/// An iterator that can be collected into what is expected when the tensors of its elements are widened.
pub trait GathersWidened {
    /// The iterator.
    type Elements;
    /// What is expected.
    type Gathered;
    /// Collects the widened elements.
    fn gather(self, elements: Self::Elements) -> Self::Gathered;
}

impl<I: Iterator<Item: Recast<To<F32>, Output = W>>, W, E: FromIterator<W>> GathersWidened for &Probe<I, E> {
    type Elements = I;
    type Gathered = E;
    fn gather(self, elements: I) -> E {
        elements.map(|element| element.recast(to())).collect()
    }
}

/// Any other iterator, which may be collected into what is coerced: the compiler says what is wrong otherwise.
pub trait GathersAsIs {
    /// The iterator.
    type Elements: Iterator;
    /// Collects the elements.
    fn gather<C: FromIterator<<Self::Elements as Iterator>::Item>>(self, elements: Self::Elements) -> C;
}

impl<I: Iterator, E> GathersAsIs for &mut Probe<I, E> {
    type Elements = I;
    fn gather<C: FromIterator<I::Item>>(self, elements: I) -> C {
        elements.collect()
    }
}
