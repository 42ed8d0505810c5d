//! Probes: which treatment a value gets is found by method resolution on its type.
//!
//! What applies to most is a method of the probe's own, which the compiler looks for first; then come traits of the probe,
//! then those of a reference to it. Where that is not enough, the more specific a treatment, the more references deep
//! the implementation of its trait stands, and a call through `&&&probe` finds the first that applies.

use super::{Cast, Casting, Inside, Keep, Moved, Plain, Precise, Recast, RuntimePrecision, To, to};
use crate::precision::F32;
use std::marker::PhantomData;

/// A value's type, a target, and nothing at run time: the value itself may be moved while its type is asked.
#[derive(Debug)]
pub struct Probe<T: ?Sized, K>(pub(super) PhantomData<fn() -> *const T>, pub(super) PhantomData<fn() -> K>);

impl<T: ?Sized, K> Clone for Probe<T, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized, K> Copy for Probe<T, K> {}

/// Asks what target `K` means for `value`.
pub const fn probe<T: ?Sized, K: Copy>(_value: &T, _to: K) -> Probe<T, K> {
    Probe(PhantomData, PhantomData)
}

/// A value whose type is asked for: the compiler has to know it by then, or says that it does not.
///
/// What a probe is told of a type that is not known yet would be the first of its answers, and not the right one.
pub trait Known {
    /// Does nothing.
    fn __amp_known(&self) {}
}

impl<T: ?Sized> Known for T {}

pub(super) type Two<'a, T, K> = &'a &'a Probe<T, K>;
pub(super) type Three<'a, T, K> = &'a Two<'a, T, K>;
type Eight<'a, T, K> = &'a &'a &'a &'a &'a Three<'a, T, K>;

macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        pub const fn $name<T: ?Sized, K: Copy>(_value: &T, _to: K) -> Probe<T, K> {
            Probe(PhantomData, PhantomData)
        }
    )* };
    (by reference: $($(#[$doc:meta])* $name:ident: $levels:ident $value:expr;)*) => { $(
        $(#[$doc])*
        pub const fn $name<'a, T: ?Sized, K: Copy>(_value: &T, _to: K) -> $levels<'a, T, K> {
            $value
        }
    )* };
}
questions! {
    /// What becomes of a place that is an argument: `.hold(..)`.
    place;
    /// What becomes of what a module is given: `.enter(..)`.
    input;
    /// What the other arguments are cast to if this is the receiver: `.gate(..)`.
    gate;
    /// What becomes of a value that is given away: `.give(..)`.
    owned;
    /// What a module casts its inputs to: `.module()` and `.module_for(..)`.
    module;
    /// What the operands of an operation that may write its result narrow are cast to: `.direct(..)`.
    writer;
    /// Whether a module narrows what it is given: `.narrows(..)`.
    taker;
}
questions! {
    by reference:
    /// What becomes of the place before the dot, where it may be no tensor: `.treatment()`.
    receiver: Eight &&&&&&&&Probe(PhantomData, PhantomData);
    /// The precision of a value as a target: `.token(..)`.
    token: Three &&&Probe(PhantomData, PhantomData);
    /// What values go to this place: `.slot()`.
    slot: Two &&Probe(PhantomData, PhantomData);
}

/// What a question gives of which only the type is asked for.
pub trait Answer {
    /// Its value.
    const ANSWER: Self;
}

impl<T: ?Sized, K> Answer for Two<'_, T, K> {
    const ANSWER: Self = &&Probe(PhantomData, PhantomData);
}

impl<T: ?Sized, K> Answer for Probe<T, K> {
    const ANSWER: Self = Self(PhantomData, PhantomData);
}

/// The answer to a question that does not run.
pub const fn answered<A: Answer>() -> A {
    A::ANSWER
}

/// An element of what a loop or a pattern takes apart, for its type.
pub fn item<I: IntoIterator>(_of: I) -> I::Item {
    super::absent()
}

/// As [`slot`], of a type.
pub const fn declared<'a, T: ?Sized>() -> Two<'a, T, Keep> {
    &&Probe(PhantomData, PhantomData)
}

/// Treatment of a tensor: cast.
#[derive(Clone, Copy, Debug)]
pub struct Casts;

/// Treatment of a borrowed place whose value can be copied (a number, a reference): copied.
#[derive(Clone, Copy, Debug)]
pub struct Copies;

impl Casts {
    /// The target of the other arguments when this is the receiver.
    pub fn gate<K>(self, to: K) -> K {
        to
    }

    /// Takes the argument.
    pub fn take<A, K: Casting<A>>(self, place: A, to: K) -> K::Held {
        to.held(place)
    }
}

impl Copies {
    /// The target of the other arguments when this is the receiver: a call on something else stays as it is.
    pub fn gate<K>(self, _to: K) -> Keep {
        Keep
    }

    /// Takes the place.
    pub fn take<T: Copy, K>(self, place: &T, _to: K) -> Moved<T> {
        Moved(*place)
    }
}

/// Traits of autoref specialisation: which of them a value has says how it is treated.
macro_rules! level {
    ($($(#[$doc:meta])* $trait:ident, $method:ident => $kind:ty;)*) => { $(
        $(#[$doc])*
        pub trait $trait {
            /// The treatment.
            fn $method(&self) -> $kind;
        }
    )* };
}
pub(super) use level;

impl<T: Inside<Tensor: Cast<K>>, K> Probe<T, K> {
    /// The target of the other arguments where the receiver is a tensor.
    pub fn gate(self, to: K) -> K {
        to
    }
}

/// Any other receiver: the call stays as it is.
pub trait GateShut<K>: Sized {
    /// The other arguments have no target.
    fn gate(self, _to: K) -> Keep {
        Keep
    }
}

impl<T: ?Sized, K> GateShut<K> for Probe<T, K> {}

impl<A: Recast<K, Output = A> + Plain, K> Probe<A, K> {
    /// Gives a value that has the target precision.
    pub fn give(self, value: A, _to: K) -> A {
        value
    }
}

/// An owned value with other tensors in it.
pub trait OwnedTensor {
    /// What it is.
    type Value: Recast<Self::To>;
    /// The target.
    type To;
    /// Casts them.
    fn give(self, value: Self::Value, to: Self::To) -> <Self::Value as Recast<Self::To>>::Output;
}

impl<A: Recast<K>, K> OwnedTensor for Probe<A, K> {
    type Value = A;
    type To = K;
    fn give(self, value: A, to: K) -> A::Output {
        value.recast(to)
    }
}

/// An owned value without.
pub trait AsIsOwned {
    /// What it is.
    type Value;
    /// The target.
    type To;
    /// Gives it back.
    fn give(self, value: Self::Value, to: Self::To) -> Self::Value;
}

impl<A, K> AsIsOwned for &Probe<A, K> {
    type Value = A;
    type To = K;
    fn give(self, value: A, _to: K) -> A {
        value
    }
}

/// The precision of a run-time-typed tensor as a target.
pub trait TokenRuntime {
    /// The value probed.
    type Of;
    /// The target it stands for.
    type Token;
    /// Reads it.
    fn token(&self, value: &Self::Of) -> Self::Token;
}

/// The precision of a typed tensor as a target.
pub trait TokenTyped {
    /// The value probed.
    type Of;
    /// The target it stands for.
    type Token;
    /// Reads it.
    fn token(&self, value: &Self::Of) -> Self::Token;
}

/// Anything else has none.
pub trait TokenNone {
    /// The value probed.
    type Of: ?Sized;
    /// No target.
    fn token(&self, value: &Self::Of) -> Keep;
}

impl<T: Inside, K> TokenRuntime for &&Probe<T, K>
where
    T::Tensor: RuntimePrecision,
{
    type Of = T;
    type Token = <T::Tensor as RuntimePrecision>::Token;
    fn token(&self, value: &T) -> Self::Token {
        value.inside().token()
    }
}

impl<T: Inside, K> TokenTyped for &Probe<T, K>
where
    T::Tensor: Precise,
{
    type Of = T;
    type Token = To<<T::Tensor as Precise>::Precision>;
    fn token(&self, _value: &T) -> Self::Token {
        to()
    }
}

impl<T: ?Sized, K> TokenNone for Probe<T, K> {
    type Of = T;
    fn token(&self, _value: &T) -> Keep {
        Keep
    }
}

/// The target of a value that goes to a place holding an F32 tensor.
pub trait SlotF32 {
    /// F32.
    fn slot(&self) -> To<F32>;
}

/// The target of a value that goes to any other place.
pub trait SlotAsIs {
    /// None.
    fn slot(&self) -> Keep;
}

impl<T: Precise<Precision = F32>, K> SlotF32 for &Probe<T, K> {
    fn slot(&self) -> To<F32> {
        to()
    }
}

impl<T: ?Sized, K> SlotAsIs for Probe<T, K> {
    fn slot(&self) -> Keep {
        Keep
    }
}
