//! Values given away to where only the compiler knows what is expected: a field of a struct, an argument of a function.

use super::probe::Three;
use super::{Cast, Inside, Probe, Recast, To, to};
use crate::precision::F32;
use std::marker::PhantomData;

/// What becomes of a value where `E` is expected: `.leave(..)`, and `.hand(..)` of a reference.
#[inline]
pub const fn leaving<'a, V, E>(_value: &V, _expected: &Option<E>) -> Three<'a, V, E> {
    &&&Probe(PhantomData, PhantomData)
}

/// No value: of what is expected, for its type, and of what is widened for a reference, until it is.
#[inline]
pub const fn nothing<W>() -> Option<W> {
    None
}

/// A value of the type that is expected. A type that is not known yet is that of the value.
pub trait LeavesSame<V> {
    /// What is given.
    type Given;
    /// Gives the value.
    fn leave(&self, value: V) -> Self::Given;
    /// Gives it where it may be a reference.
    fn hand(&self, value: V, slot: &mut Option<()>) -> Self::Given;
}

/// A value that becomes what is expected when its tensors are widened.
pub trait LeavesWidened<V> {
    /// What is given.
    type Given;
    /// Gives the value.
    fn leave(&self, value: V) -> Self::Given;
    /// Gives it where it may be a reference.
    fn hand(&self, value: V, slot: &mut Option<()>) -> Self::Given;
}

/// Any other value, which the compiler may coerce.
pub trait LeavesAsIs<V> {
    /// What is given.
    type Given;
    /// Gives the value.
    fn leave(&self, value: V) -> Self::Given;
    /// Gives it where it may be a reference.
    fn hand(&self, value: V, slot: &mut Option<()>) -> Self::Given;
}

/// A reference to a tensor where one to a tensor of F32 is expected.
pub trait HandsWidened<V> {
    /// The tensor of F32.
    type Lent;
    /// Lends it out of the slot.
    fn hand<'s>(&self, value: V, slot: &'s mut Option<Self::Lent>) -> &'s Self::Lent;
}

impl<V> LeavesSame<V> for &&Probe<V, V> {
    type Given = V;
    fn leave(&self, value: V) -> V {
        value
    }
    fn hand(&self, value: V, _slot: &mut Option<()>) -> V {
        value
    }
}

impl<'v, T: Inside<Tensor: Cast<To<F32>, Output = E>>, E> HandsWidened<&'v T> for &Probe<&'v T, &E> {
    type Lent = E;
    fn hand<'s>(&self, value: &'v T, slot: &'s mut Option<E>) -> &'s E {
        slot.insert(value.inside().cast(to()))
    }
}

impl<V: Recast<To<F32>, Output = E>, E> LeavesWidened<V> for &Probe<V, E> {
    type Given = E;
    fn leave(&self, value: V) -> E {
        value.recast(to())
    }
    fn hand(&self, value: V, _slot: &mut Option<()>) -> E {
        value.recast(to())
    }
}

impl<V, E> LeavesAsIs<V> for Probe<V, E> {
    type Given = V;
    fn leave(&self, value: V) -> V {
        value
    }
    fn hand(&self, value: V, _slot: &mut Option<()>) -> V {
        value
    }
}
