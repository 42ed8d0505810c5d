//! Counts the narrowings that only the types know of, those by modules and of their results, for `max_casts`.

use super::input::Carries;
use super::{Keep, Probe, To, Writing};
use crate::precision::F32;
use std::marker::PhantomData;

/// One operand: [`To`] where it is narrowed, [`Keep`] where it is not.
#[derive(Debug)]
pub struct Tally<C>(PhantomData<fn() -> C>);

impl<C> Clone for Tally<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Tally<C> {}

/// An operand that is counted when its type is known.
pub const fn tally<C>() -> Tally<C> {
    Tally(PhantomData)
}

/// An operand that has its target's precision.
pub trait Narrow<A, L> {
    /// Counts nothing.
    fn counted(&self, tally: Tally<Keep>) -> Probe<A, To<L>>;
}

impl<A: Carries<L>, L> Narrow<A, L> for &&Probe<A, To<L>> {
    fn counted(&self, _tally: Tally<Keep>) -> Probe<A, To<L>> {
        Probe(PhantomData, PhantomData)
    }
}

/// An operand that is widened.
pub trait Wide<A> {
    /// Counts nothing.
    fn counted(&self, tally: Tally<Keep>) -> Probe<A, To<F32>>;
}

impl<A> Wide<A> for &Probe<A, To<F32>> {
    fn counted(&self, _tally: Tally<Keep>) -> Probe<A, To<F32>> {
        Probe(PhantomData, PhantomData)
    }
}

/// Any other operand.
pub trait Counted<A, K: Costs> {
    /// Counts what its target costs.
    fn counted(&self, tally: Tally<K::Cost>) -> Probe<A, K>;
}

impl<A, K: Costs> Counted<A, K> for Probe<A, K> {
    fn counted(&self, _tally: Tally<K::Cost>) -> Self {
        Self(PhantomData, PhantomData)
    }
}

/// What a target costs a value of another precision.
pub trait Costs {
    /// [`To`] or [`Keep`].
    type Cost;
}

impl<L> Costs for To<L> {
    type Cost = Self;
}

impl<L> Costs for Writing<L> {
    type Cost = Keep;
}

impl Costs for Keep {
    type Cost = Self;
}
/// No narrowing.
#[derive(Debug)]
pub struct Zero;

/// One more.
#[derive(Debug)]
pub struct More<N>(PhantomData<fn() -> N>);

/// What one call adds.
pub trait Narrowings {
    /// The sum.
    type Plus<N>;
}

impl<L> Narrowings for To<L> {
    type Plus<N> = More<N>;
}

impl Narrowings for Keep {
    type Plus<N> = N;
}

/// Calls one after the other.
pub trait Sum {
    /// What they cost together.
    type Sum;
}

impl Sum for () {
    type Sum = Zero;
}

impl<C: Narrowings, R: Sum> Sum for (Tally<C>, R) {
    type Sum = C::Plus<R::Sum>;
}

/// What these calls cost together.
pub fn sum<S: Sum>(_calls: S) -> PhantomData<S::Sum> {
    PhantomData
}
