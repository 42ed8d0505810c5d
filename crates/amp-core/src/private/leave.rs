//! Values given away to where only the compiler knows what is expected: a field of a struct, an argument of a function.

use super::probe::Three;
use super::{Probe, Recast, To, to};
use crate::precision::F32;
use std::marker::PhantomData;

/// What becomes of a value where `E` is expected: `.leave(..)`.
pub const fn leaving<'a, V, E>(_value: &V, _expected: &E) -> Three<'a, V, E> {
    &&&Probe(PhantomData, PhantomData)
}

/// A value of the type that is expected. A type that is not known yet is that of the value.
pub trait LeavesSame<V> {
    /// What is given.
    type Given;
    /// Gives the value.
    fn leave(&self, value: V) -> Self::Given;
}

/// A value that becomes what is expected when its tensors are widened.
pub trait LeavesWidened<V> {
    /// What is given.
    type Given;
    /// Gives the value.
    fn leave(&self, value: V) -> Self::Given;
}

/// Any other value, which the compiler may coerce.
pub trait LeavesAsIs<V> {
    /// What is given.
    type Given;
    /// Gives the value.
    fn leave(&self, value: V) -> Self::Given;
}

impl<V> LeavesSame<V> for &&Probe<V, V> {
    type Given = V;
    fn leave(&self, value: V) -> V {
        value
    }
}

impl<V: Recast<To<F32>, Output = E>, E> LeavesWidened<V> for &Probe<V, E> {
    type Given = E;
    fn leave(&self, value: V) -> E {
        value.recast(to())
    }
}

impl<V, E> LeavesAsIs<V> for Probe<V, E> {
    type Given = V;
    fn leave(&self, value: V) -> V {
        value
    }
}
