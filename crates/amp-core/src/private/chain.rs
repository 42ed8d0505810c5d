//! Iterators one after the other: their elements meet at F32 where they differ.

use super::{Cast, Inside, Probe, Recast, To, to};
use crate::precision::F32;
use std::cell::OnceCell;
use std::iter::{Chain, Map};
use std::marker::PhantomData;

/// What becomes of `one.chain(other)`: `.chain(..)`.
#[inline]
pub const fn chaining<A, B>(_one: &A, _other: &B) -> Probe<A, B> {
    Probe(PhantomData, PhantomData)
}

impl<A: Iterator, B: IntoIterator<Item = A::Item>> Probe<A, B> {
    /// Chains iterators over elements of one type.
    pub fn chain(self, one: A, other: B, _slot: &mut Option<()>) -> Chain<A, B::IntoIter> {
        one.chain(other)
    }
}

/// An iterator over what is made of the elements of another.
type Made<A, W> = Map<<A as IntoIterator>::IntoIter, fn(<A as IntoIterator>::Item) -> W>;

/// Iterators over tensors of different precisions.
pub trait ChainsWidened {
    /// The first.
    type One;
    /// The second.
    type Other;
    /// Both of them.
    type Both;
    /// Widens the elements.
    fn chain(self, one: Self::One, other: Self::Other, slot: &mut Option<()>) -> Self::Both;
}

impl<A, B, W> ChainsWidened for &Probe<A, B>
where
    A: Iterator<Item: Recast<To<F32>, Output = W>>,
    B: IntoIterator<Item: Recast<To<F32>, Output = W>>,
{
    type One = A;
    type Other = B;
    type Both = Chain<Made<A, W>, Made<B, W>>;
    fn chain(self, one: A, other: B, _slot: &mut Option<()>) -> Self::Both {
        let one: Made<A, W> = one.map(|element| element.recast(to()));
        let other: Made<B, W> = other.into_iter().map(|element| element.recast(to()));
        one.chain(other)
    }
}

/// A list that grows at its end while its elements are lent.
#[derive(Debug)]
pub struct Grown<E>(OnceCell<Box<(E, Self)>>);

impl<E> Drop for Grown<E> {
    /// One after the other: each inside of the one before, a long list would take all of the stack.
    fn drop(&mut self) {
        let mut rest = self.0.take();
        while let Some(mut element) = rest {
            rest = element.1.0.take();
        }
    }
}

/// An iterator over references to tensors of F32 that are widened one by one, and live at the end of a list.
#[derive(Debug)]
pub struct Lending<'s, I, E> {
    tensors: I,
    end: &'s Grown<E>,
}

impl<'s, I: Iterator<Item = E>, E> Iterator for Lending<'s, I, E> {
    type Item = &'s E;
    fn next(&mut self) -> Option<&'s E> {
        let tensor = self.tensors.next()?;
        let (tensor, end) = &**self.end.0.get_or_init(|| Box::new((tensor, Grown(OnceCell::new()))));
        self.end = end;
        Some(tensor)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.tensors.size_hint()
    }
}

/// Iterators over references to tensors of different precisions.
pub trait ChainsReferences {
    /// The first.
    type One;
    /// The second.
    type Other;
    /// A tensor of F32.
    type Lent;
    /// Both of them, cast.
    type Both;
    /// Lends the elements out of the slot.
    fn chain(
        self,
        one: Self::One,
        other: Self::Other,
        slot: &mut Option<Grown<Self::Lent>>,
    ) -> Lending<'_, Self::Both, Self::Lent>;
}

impl<'a, 'b, A, B, T, U, E> ChainsReferences for Probe<A, B>
where
    A: Iterator<Item = &'a T>,
    B: IntoIterator<Item = &'b U>,
    T: Inside<Tensor: Cast<To<F32>, Output = E>> + 'a,
    U: Inside<Tensor: Cast<To<F32>, Output = E>> + 'b,
{
    type One = A;
    type Other = B;
    type Lent = E;
    type Both = Chain<Made<A, E>, Made<B, E>>;
    fn chain(self, one: A, other: B, slot: &mut Option<Grown<E>>) -> Lending<'_, Self::Both, E> {
        let one: Made<A, E> = one.map(|tensor| tensor.inside().cast(to()));
        let other: Made<B, E> = other.into_iter().map(|tensor| tensor.inside().cast(to()));
        Lending { tensors: one.chain(other), end: slot.insert(Grown(OnceCell::new())) }
    }
}

/// Any others: the compiler says what is wrong with them.
pub trait ChainsAsIs {
    /// The first.
    type One: Iterator;
    /// The second.
    type Other;
    /// Chains them.
    fn chain(
        self,
        one: Self::One,
        other: Self::Other,
        slot: &mut Option<()>,
    ) -> Chain<Self::One, <Self::Other as IntoIterator>::IntoIter>
    where
        Self::Other: IntoIterator<Item = <Self::One as Iterator>::Item>;
}

impl<A: Iterator, B> ChainsAsIs for &mut Probe<A, B> {
    type One = A;
    type Other = B;
    fn chain(self, one: A, other: B, _slot: &mut Option<()>) -> Chain<A, B::IntoIter>
    where
        B: IntoIterator<Item = A::Item>,
    {
        one.chain(other)
    }
}

#[cfg(test)]
mod tests {
    use super::{Grown, Lending};
    use std::cell::OnceCell;

    #[test]
    fn long_lists_are_lent_and_dropped() {
        let list = Grown(OnceCell::new());
        let sum: usize = Lending { tensors: 0..1_000_000, end: &list }.sum();
        assert_eq!(sum, 499_999_500_000);
        drop(list);
    }
}
