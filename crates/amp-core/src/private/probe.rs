//! Probes: which treatment a value gets is found by method resolution on its type.
//!
//! Each treatment is a trait; the more specific, the more references deep its implementation stands, and a call
//! through `&&&probe` finds the first that applies. The functions that expansions call give as many references as their
//! question has answers: what the compiler would have to check anew in every expansion is checked here once.

use super::{Cast, Casting, Held, HeldOption, Inside, Keep, Moved, Plain, Precise, Recast, RuntimePrecision, To, to};
use crate::precision::F32;
use std::marker::PhantomData;

/// A value's type, a target, and nothing at run time: the value itself may be moved while its type is asked.
#[derive(Debug)]
pub struct Probe<T: ?Sized, K>(pub(super) PhantomData<fn() -> *const T>, pub(super) PhantomData<fn() -> K>);

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
type Four<'a, T, K> = &'a Three<'a, T, K>;
type Six<'a, T, K> = &'a &'a Four<'a, T, K>;
type Eight<'a, T, K> = &'a &'a Six<'a, T, K>;

macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident: $levels:ident $value:expr;)*) => { $(
        $(#[$doc])*
        pub const fn $name<'a, T: ?Sized, K: Copy>(_value: &T, _to: K) -> $levels<'a, T, K> {
            $value
        }
    )* };
}
questions! {
    /// What becomes of an argument: `.hold(..)`.
    argument: Three &&&Probe(PhantomData, PhantomData);
    /// What becomes of what a module is given: `.hold(..)`.
    input: Six &&&&&&Probe(PhantomData, PhantomData);
    /// What becomes of a place that is borrowed: `.lend(..)`.
    place: Three &&&Probe(PhantomData, PhantomData);
    /// What the other arguments are cast to if this is the receiver: `.gate(..)`.
    gate: Two &&Probe(PhantomData, PhantomData);
    /// What becomes of the place before the dot, where it may be no tensor: `.treatment()`.
    receiver: Eight &&&&&&&&Probe(PhantomData, PhantomData);
    /// What becomes of a value that is given away: `.give(..)`.
    owned: Three &&&Probe(PhantomData, PhantomData);
    /// The precision of a value as a target: `.token(..)`.
    token: Three &&&Probe(PhantomData, PhantomData);
    /// What a module casts its inputs to: `.module()` and `.module_for(..)`.
    module: Two &&Probe(PhantomData, PhantomData);
    /// What the operands of an operation that may write its result narrow are cast to: `.direct(..)`.
    writer: Three &&&Probe(PhantomData, PhantomData);
    /// Whether a module narrows what it is given: `.narrows(..)`.
    taker: Three &&&Probe(PhantomData, PhantomData);
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

impl<T: ?Sized, K> Answer for Three<'_, T, K> {
    const ANSWER: Self = &&&Probe(PhantomData, PhantomData);
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

/// Treatment of an optional tensor: cast inside.
#[derive(Clone, Copy, Debug)]
pub struct CastsOption;

/// Treatment of a borrowed place whose value can be copied (a number, a reference): copied.
#[derive(Clone, Copy, Debug)]
pub struct Copies;

/// Treatment of any other borrowed place: its reference is passed on.
#[derive(Clone, Copy, Debug)]
pub struct Borrows;

/// Treatment of everything else: moved along.
#[derive(Clone, Copy, Debug)]
pub struct Untouched;

impl Casts {
    /// The target of the other arguments when this is the receiver.
    pub fn gate<K>(self, to: K) -> K {
        to
    }

    /// Takes the argument.
    pub fn take<A, K: Casting<A>>(self, place: A, to: K) -> K::Held {
        to.held(place)
    }

    /// Casts a value that is given away.
    pub fn recast<A: Recast<K>, K>(self, value: A, to: K) -> A::Output {
        value.recast(to)
    }
}

impl CastsOption {
    /// Takes the argument.
    pub fn take<A: Inside, K>(self, value: Option<A>, to: K) -> HeldOption<<A::Tensor as Cast<K>>::Output>
    where
        A::Tensor: Cast<K>,
    {
        HeldOption(value.map(|value| value.inside().cast(to)))
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

impl Borrows {
    /// Takes the place.
    pub fn take<T: ?Sized, K>(self, place: &T, _to: K) -> Moved<&T> {
        Moved(place)
    }
}

impl Untouched {
    /// Takes the argument.
    pub fn take<A, K>(self, value: A, _to: K) -> Moved<A> {
        Moved(value)
    }

    /// Gives the value back.
    pub fn recast<A, K>(self, value: A, _to: K) -> A {
        value
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

/// As `level!`, where the value can be treated at once: by `$kind`, whose method is `$by`.
macro_rules! treated {
    ($($(#[$doc:meta])* $trait:ident, $method:ident [$($param:tt)*] $probe:ty, $value:ty, $to:ty => $taken:ty,
        $kind:ident.$by:ident, where [$($bound:tt)*];)*) => { $(
        $(#[$doc])*
        pub trait $trait<V, K> {
            /// What becomes of it.
            type Taken;
            /// Takes the value, cast to the target if that is its treatment.
            fn $method(&self, value: V, to: K) -> Self::Taken;
        }

        impl<$($param)*> $trait<$value, $to> for $probe
        where
            $($bound)*
        {
            type Taken = $taken;
            fn $method(&self, value: $value, to: $to) -> $taken {
                $kind.$by(value, to)
            }
        }
    )* };
}
treated! {
    /// An argument that is a tensor.
    ByTensor, hold [A: Inside, K] &&Probe<A, K>, A, K => Held<A, <A::Tensor as Cast<K>>::Output>, Casts.take,
        where [A::Tensor: Cast<K>];
    /// An argument that is an optional tensor.
    ByOption, hold [A: Inside, K] &Probe<Option<A>, K>, Option<A>, K => HeldOption<<A::Tensor as Cast<K>>::Output>,
        CastsOption.take, where [A::Tensor: Cast<K>];
    /// An argument that is no tensor.
    AsIs, hold [A, K] Probe<A, K>, A, K => Moved<A>, Untouched.take, where [];
    /// A place with a tensor.
    PlaceTensor, lend ['a, A: Inside, K] &&Probe<A, K>, &'a A, K => Held<&'a A, <A::Tensor as Cast<K>>::Output>,
        Casts.take,
        where [A::Tensor: Cast<K>];
    /// A place that is no tensor and can be copied.
    ByCopy, lend ['a, A: Copy, K] &Probe<A, K>, &'a A, K => Moved<A>, Copies.take, where [];
    /// A place that is no tensor.
    ByPlace, lend ['a, A: ?Sized, K] Probe<A, K>, &'a A, K => Moved<&'a A>, Borrows.take, where [];
    /// An owned value that has the target precision.
    OwnedKeeps, give [A: Recast<K, Output = A> + Plain, K] &&Probe<A, K>, A, K => A, Untouched.recast, where [];
    /// An owned value with tensors in it.
    OwnedTensor, give [A: Recast<K>, K] &Probe<A, K>, A, K => A::Output, Casts.recast, where [];
    /// An owned value without.
    AsIsOwned, give [A, K] Probe<A, K>, A, K => A, Untouched.recast, where [];
}

/// A receiver that is a tensor.
pub trait GateOpen<K> {
    /// The target of the other arguments.
    fn gate(&self, to: K) -> K;
}

/// Any other receiver: the call stays as it is.
pub trait GateShut<K> {
    /// The other arguments have no target.
    fn gate(&self, to: K) -> Keep;
}

impl<T: Inside, K> GateOpen<K> for &Probe<T, K>
where
    T::Tensor: Cast<K>,
{
    fn gate(&self, to: K) -> K {
        to
    }
}

impl<T: ?Sized, K> GateShut<K> for Probe<T, K> {
    fn gate(&self, _to: K) -> Keep {
        Keep
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
