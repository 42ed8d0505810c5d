//! Probes: which treatment a value gets is found by method resolution on its type.
//!
//! Each treatment is a trait; the more specific, the more references deep its implementation stands, and a call
//! through `&&&probe` finds the first that applies.

use super::{
    Cast, Held, HeldOption, Inside, Keep, Kept, Moved, NoPolicy, Plain, Precise, Recast, RuntimePrecision, To, to,
};
use crate::precision::F32;
use std::marker::PhantomData;

/// A value's type, a target, and nothing at run time.
#[derive(Debug)]
pub struct Probe<'a, T: ?Sized, K>(PhantomData<&'a T>, PhantomData<fn() -> K>);

/// Asks what target `K` means for `value`.
pub const fn probe<'a, T: ?Sized, K: Copy>(_value: &'a T, _to: K) -> Probe<'a, T, K> {
    Probe(PhantomData, PhantomData)
}

/// Treatment of a tensor that has the target precision: passed on by reference.
#[derive(Clone, Copy, Debug)]
pub struct Same;

/// Treatment of a tensor of another precision: cast.
#[derive(Clone, Copy, Debug)]
pub struct Casts;

/// Treatment of an optional tensor: cast inside.
#[derive(Clone, Copy, Debug)]
pub struct CastsOption;

/// Treatment of everything else: moved along.
#[derive(Clone, Copy, Debug)]
pub struct Untouched;

impl Same {
    /// The target of the other arguments when this is the receiver.
    pub fn gate<K>(self, to: K) -> K {
        to
    }

    /// Takes the argument.
    pub fn take<A: Inside, K>(self, value: A, _to: K) -> Kept<A> {
        Kept(value)
    }
}

impl Casts {
    /// The target of the other arguments when this is the receiver.
    pub fn gate<K>(self, to: K) -> K {
        to
    }

    /// Takes the argument.
    pub fn take<A: Inside, K>(self, value: A, to: K) -> Held<<A::Tensor as Cast<K>>::Output>
    where
        A::Tensor: Cast<K>,
    {
        Held(value.inside().cast(to))
    }

    /// Casts a value that is given away.
    pub fn recast<A: Recast<K>, K>(self, value: A, to: K) -> A::Output {
        value.recast(to)
    }
}

impl CastsOption {
    /// The target of the other arguments when this is the receiver.
    pub fn gate<K>(self, _to: K) -> Keep {
        Keep
    }

    /// Takes the argument.
    pub fn take<A: Inside, K>(self, value: Option<A>, to: K) -> HeldOption<<A::Tensor as Cast<K>>::Output>
    where
        A::Tensor: Cast<K>,
    {
        HeldOption(value.map(|value| value.inside().cast(to)))
    }
}

impl Untouched {
    /// The target of the other arguments when this is the receiver: a call on something else stays as it is.
    pub fn gate<K>(self, _to: K) -> Keep {
        Keep
    }

    /// Takes the argument.
    pub fn take<A, K>(self, value: A, _to: K) -> Moved<A> {
        Moved(value)
    }

    /// Gives the value back.
    pub fn recast<A, K>(self, value: A, _to: K) -> A {
        value
    }
}

macro_rules! level {
    ($($(#[$doc:meta])* $trait:ident, $method:ident => $kind:ty;)*) => { $(
        $(#[$doc])*
        pub trait $trait {
            /// The treatment.
            fn $method(&self) -> $kind;
        }
    )* };
}
level! {
    /// An argument that has the target precision.
    KeepsPrecision, kind => Same;
    /// An argument that is a tensor of another precision.
    ByTensor, kind => Casts;
    /// An argument that is an optional tensor.
    ByOption, kind => CastsOption;
    /// An argument that is no tensor.
    AsIs, kind => Untouched;
    /// An owned value that has the target precision.
    OwnedKeeps, owned => Untouched;
    /// An owned value with tensors in it.
    OwnedTensor, owned => Casts;
    /// An owned value without.
    AsIsOwned, owned => Untouched;
}

impl<T: Inside, P> KeepsPrecision for &&&Probe<'_, T, To<P>>
where
    T::Tensor: Precise<Precision = P> + Plain,
{
    fn kind(&self) -> Same {
        Same
    }
}

impl<T: Inside, K> ByTensor for &&Probe<'_, T, K>
where
    T::Tensor: Cast<K>,
{
    fn kind(&self) -> Casts {
        Casts
    }
}

impl<T: Inside, K> ByOption for &Probe<'_, Option<T>, K>
where
    T::Tensor: Cast<K>,
{
    fn kind(&self) -> CastsOption {
        CastsOption
    }
}

impl<T: ?Sized, K> AsIs for Probe<'_, T, K> {
    fn kind(&self) -> Untouched {
        Untouched
    }
}

impl<T: Recast<K, Output = T>, K> OwnedKeeps for &&Probe<'_, T, K> {
    fn owned(&self) -> Untouched {
        Untouched
    }
}

impl<T: Recast<K>, K> OwnedTensor for &Probe<'_, T, K> {
    fn owned(&self) -> Casts {
        Casts
    }
}

impl<T, K> AsIsOwned for Probe<'_, T, K> {
    fn owned(&self) -> Untouched {
        Untouched
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

impl<T: Inside, K> TokenRuntime for &&Probe<'_, T, K>
where
    T::Tensor: RuntimePrecision,
{
    type Of = T;
    type Token = <T::Tensor as RuntimePrecision>::Token;
    fn token(&self, value: &T) -> Self::Token {
        value.inside().token()
    }
}

impl<T: Inside, K> TokenTyped for &Probe<'_, T, K>
where
    T::Tensor: Precise,
{
    type Of = T;
    type Token = To<<T::Tensor as Precise>::Precision>;
    fn token(&self, _value: &T) -> Self::Token {
        to()
    }
}

impl<T: ?Sized, K> TokenNone for Probe<'_, T, K> {
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

impl<T: Precise<Precision = F32>, K> SlotF32 for &Probe<'_, T, K> {
    fn slot(&self) -> To<F32> {
        to()
    }
}

impl<T: ?Sized, K> SlotAsIs for Probe<'_, T, K> {
    fn slot(&self) -> Keep {
        Keep
    }
}

/// A call without a policy on a run-time-typed tensor.
pub trait OnRuntime {
    /// The tensor.
    type Tensor;
    /// Rejects the call.
    fn policy<Op>(&self)
    where
        Self::Tensor: NoPolicy<Op>;
}

/// A call without a policy on anything else.
pub trait WithoutPolicy {
    /// Accepts the call.
    fn policy<Op>(&self);
}

impl<T: Inside, K> OnRuntime for &Probe<'_, T, K>
where
    T::Tensor: RuntimePrecision,
{
    type Tensor = T::Tensor;
    fn policy<Op>(&self)
    where
        T::Tensor: NoPolicy<Op>,
    {
    }
}

impl<T: ?Sized, K> WithoutPolicy for Probe<'_, T, K> {
    fn policy<Op>(&self) {}
}
