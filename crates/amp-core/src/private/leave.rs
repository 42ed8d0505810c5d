//! Values that are given to a place whose type only the compiler knows: a field of a struct, an argument of a function.

use super::{Cast, Inside, Precise, Probe, Recast, To, absent, to};
use crate::precision::{AutocastPrecision, F32};
use crate::tensor::Tensor;
use std::marker::PhantomData;

/// What becomes of a value where `E` is expected: `.leave(..)`, and `.hand(..)` of a reference.
#[inline]
pub const fn leaving<V, E>(_value: &V, _expected: &Option<E>) -> Probe<V, E> {
    Probe(PhantomData, PhantomData)
}

/// No value: of what is expected, for its type, and of what is widened for a reference, until it is.
pub use Option::{None as Nothing, Some as Something};

impl<V> Probe<V, V> {
    /// Gives a value of the type that is expected. A type that is not known yet is that of the value.
    pub fn leave(self, value: V) -> V {
        value
    }
}

/// A value that goes where `E` is expected as it is: it is one, or a list whose elements have the type that is expected.
pub trait Suits<E> {}

impl<V> Suits<V> for V {}
impl<'v, V> Suits<&'v [V]> for &'v Vec<V> {}
impl<'v, V, const N: usize> Suits<&'v [V]> for &'v [V; N] {}

impl<V: Suits<E>, E> Probe<V, E> {
    /// Gives it where it may be a reference.
    pub fn hand(self, value: V, _slot: &mut Option<()>) -> V {
        value
    }
}

/// A value that becomes what is expected when its tensors are widened.
pub trait LeavesWidened {
    /// The value.
    type Value;
    /// What is given.
    type Given;
    /// Gives the value.
    fn leave(self, value: Self::Value) -> Self::Given;
    /// Gives it where it may be a reference.
    fn hand(self, value: Self::Value, slot: &mut Option<()>) -> Self::Given;
}

impl<V: Recast<To<F32>, Output = E>, E> LeavesWidened for &Probe<V, E> {
    type Value = V;
    type Given = E;
    fn leave(self, value: V) -> E {
        value.recast(to())
    }
    fn hand(self, value: V, _slot: &mut Option<()>) -> E {
        value.recast(to())
    }
}

/// Implemented by nothing: the bound that rejects what would be narrowed.
#[diagnostic::on_unimplemented(
    message = "this `F32` value would be narrowed here",
    label = "a tensor of less precision is expected",
    note = "declare `Tensor<F32>`, or write the cast: `.to()?`"
)]
pub trait NarrowedUnasked {}

/// A tensor of F32, a reference to one or a list of such, where `E` is of less precision.
pub trait Wider<E> {}

impl<T: Precise<Precision = F32>, P: AutocastPrecision> Wider<Tensor<P>> for T {}
impl<T: Precise<Precision = F32>, P: AutocastPrecision> Wider<&Tensor<P>> for &T {}
impl<V: Wider<E>, E> Wider<Option<E>> for Option<V> {}
impl<V: Wider<E>, E, X> Wider<std::result::Result<E, X>> for std::result::Result<V, X> {}
impl<V: Wider<E>, E> Wider<Vec<E>> for Vec<V> {}
impl<V: Wider<E>, E> Wider<&[E]> for &[V] {}
impl<V: Wider<E>, E> Wider<&[E]> for &Vec<V> {}
impl<V: Wider<E>, E, const N: usize> Wider<&[E]> for &[V; N] {}

/// A value of F32 where one of the region's precision is expected.
pub trait LeavesNarrowed<V> {
    /// What is expected.
    type Given;
    /// Rejects it.
    fn leave(self, value: V) -> Self::Given
    where
        V: NarrowedUnasked;
    /// Rejects it where it may be a reference.
    fn hand(self, value: V, slot: &mut Option<()>) -> Self::Given
    where
        V: NarrowedUnasked;
}

impl<V: Wider<E>, E> LeavesNarrowed<V> for Probe<V, E> {
    type Given = E;
    fn leave(self, _value: V) -> E
    where
        V: NarrowedUnasked,
    {
        absent()
    }
    fn hand(self, _value: V, _slot: &mut Option<()>) -> E
    where
        V: NarrowedUnasked,
    {
        absent()
    }
}

/// A reference to a tensor where one to a tensor of F32 is expected.
pub trait HandsWidened {
    /// The reference.
    type Value;
    /// The tensor of F32.
    type Lent;
    /// Lends it out of the slot.
    fn hand(self, value: Self::Value, slot: &mut Option<Self::Lent>) -> &Self::Lent;
}

impl<'v, T: Inside<Tensor: Cast<To<F32>, Output = E>>, E> HandsWidened for Probe<&'v T, &E> {
    type Value = &'v T;
    type Lent = E;
    fn hand<'s>(self, value: &'v T, slot: &'s mut Option<E>) -> &'s E {
        slot.insert(value.inside().cast(to()))
    }
}

/// Any other value, which the compiler may coerce.
pub trait LeavesAsIs {
    /// The value.
    type Value;
    /// Gives the value.
    fn leave(self, value: Self::Value) -> Self::Value;
    /// Gives it where it may be a reference.
    fn hand(self, value: Self::Value, slot: &mut Option<()>) -> Self::Value;
}

// What is an answer of a temporary by an exclusive reference is looked for last.
impl<V, E> LeavesAsIs for &mut Probe<V, E> {
    type Value = V;
    fn leave(self, value: V) -> V {
        value
    }
    fn hand(self, value: V, _slot: &mut Option<()>) -> V {
        value
    }
}
