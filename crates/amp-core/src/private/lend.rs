//! Lists and options that are passed by reference to where the compiler expects ones of F32: [`leaving`](super::leaving) asks
//! for that type, and widened tensors live in a slot.

use super::{Cast, Inside, Probe, Recast, To, to};
use crate::precision::F32;

/// An optional reference where one to a tensor of F32 is expected.
pub trait HandsOptional {
    /// The reference.
    type Value;
    /// The tensor of F32.
    type Lent;
    /// Lends it out of the slot.
    fn hand(self, value: Self::Value, slot: &mut Option<Self::Lent>) -> Option<&Self::Lent>;
}

impl<'v, T: Inside<Tensor: Cast<To<F32>, Output = E>>, E> HandsOptional for Probe<Option<&'v T>, Option<&E>> {
    type Value = Option<&'v T>;
    type Lent = E;
    fn hand(self, value: Self::Value, slot: &mut Option<E>) -> Option<&E> {
        value.map(|value| &*slot.insert(value.inside().cast(to())))
    }
}

/// A borrowed container where one of F32 is expected.
pub trait HandsHeld {
    /// The container.
    type Value;
    /// What is widened for it.
    type Kept;
    /// What is given.
    type Given: ?Sized;
    /// Lends it out of the slot.
    fn hand(self, value: Self::Value, slot: &mut Option<Self::Kept>) -> &Self::Given;
}

macro_rules! held {
    ($([$($param:tt)*] $from:ty, $kept:ty, $given:ty;)*) => { $(
        impl<'v, V: Clone, E, $($param)*> HandsHeld for Probe<&'v $from, &$given>
        where
            V: Recast<To<F32>, Output = E>,
        {
            type Value = &'v $from;
            type Kept = $kept;
            type Given = $given;
            fn hand(self, value: Self::Value, slot: &mut Option<$kept>) -> &$given {
                slot.insert(value.to_owned().recast(to()))
            }
        }
    )* };
}
held! {
    [] [V], Vec<E>, [E];
    [] Vec<V>, Vec<E>, [E];
    [] Vec<V>, Vec<E>, Vec<E>;
    [const N: usize] [V; N], [E; N], [E];
    [const N: usize] [V; N], [E; N], [E; N];
    [] Option<V>, Option<E>, Option<E>;
}

/// Tensors of F32, and references to them.
pub type Lent<'s, E> = (Vec<E>, Vec<&'s E>);

/// A borrowed list of references where one to tensors of F32 is expected.
pub trait HandsReferences {
    /// The list.
    type Value;
    /// A tensor of F32.
    type Lent;
    /// Lends it out of the slot.
    fn hand<'s>(self, value: Self::Value, slot: &'s mut Option<Lent<'s, Self::Lent>>) -> &'s [&'s Self::Lent];
}

macro_rules! references {
    ($([$($count:tt)*] $list:ty;)*) => { $(
        impl<'v, T: Inside<Tensor: Cast<To<F32>, Output = E>>, E, $($count)*> HandsReferences
            for Probe<&'v $list, &[&E]>
        {
            type Value = &'v $list;
            type Lent = E;
            fn hand<'s>(self, list: Self::Value, slot: &'s mut Option<Lent<'s, E>>) -> &'s [&'s E] {
                let cast = list.iter().map(|tensor| tensor.inside().cast(to())).collect();
                let (tensors, references) = slot.insert((cast, Vec::new()));
                references.extend(tensors.iter());
                references
            }
        }
    )* };
}
references! {
    [] [&'v T];
    [] Vec<&'v T>;
    [const N: usize] [&'v T; N];
}

/// A list of references where one of references to tensors of F32 is expected.
pub trait HandsList {
    /// The list.
    type Value;
    /// The tensor of F32.
    type Lent;
    /// Lends them out of the slot.
    fn hand(self, list: Self::Value, slot: &mut Option<Vec<Self::Lent>>) -> Vec<&Self::Lent>;
}

impl<'v, T: Inside<Tensor: Cast<To<F32>, Output = E>>, E> HandsList for Probe<Vec<&'v T>, Vec<&E>> {
    type Value = Vec<&'v T>;
    type Lent = E;
    fn hand(self, list: Self::Value, slot: &mut Option<Vec<E>>) -> Vec<&E> {
        slot.insert(list.into_iter().map(|tensor| tensor.inside().cast(to())).collect()).iter().collect()
    }
}

/// The same of an array.
pub trait HandsArray<const N: usize> {
    /// The array.
    type Value;
    /// The tensor of F32.
    type Lent;
    /// Lends them out of the slot.
    fn hand(self, array: Self::Value, slot: &mut Option<[Self::Lent; N]>) -> [&Self::Lent; N];
}

impl<'v, T: Inside<Tensor: Cast<To<F32>, Output = E>>, E, const N: usize> HandsArray<N> for Probe<[&'v T; N], [&E; N]> {
    type Value = [&'v T; N];
    type Lent = E;
    fn hand(self, array: Self::Value, slot: &mut Option<[E; N]>) -> [&E; N] {
        slot.insert(array.map(|tensor| tensor.inside().cast(to()))).each_ref()
    }
}
