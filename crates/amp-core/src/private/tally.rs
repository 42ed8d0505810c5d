//! How many narrowings modules cost, which their types say: `max_casts` is held against it.

use super::{Keep, To};
use std::marker::PhantomData;

/// One call of a module: [`To`] where it narrows what it is given, [`Keep`] where it does not.
#[derive(Debug)]
pub struct Tally<C>(PhantomData<fn() -> C>);

impl<C> Clone for Tally<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Tally<C> {}

/// A call that is counted when its type is known.
pub const fn tally<C>() -> Tally<C> {
    Tally(PhantomData)
}

impl<C> Tally<C> {
    /// The target of the call, which narrows or does not.
    pub fn of<T>(self, _narrows: C, target: T) -> T {
        target
    }
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
