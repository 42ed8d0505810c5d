//! The receiver of a call that is named like an operation but may not be on a tensor. It must be passed as in the call as
//! written: moved, borrowed, or borrowed exclusively.
//!
//! A method's name does not say which of the three it is, so an expansion asks the compiler. In code that is type-checked but
//! never runs, the call is made on a reference to the value, while a trait of the expansion gives every reference a method of
//! that name. A type with a method of its own that takes `&self` (or `&mut self`) uses that and never reaches the trait's,
//! whose result type says that there was none. What remains takes `self`. A method may leave the type of its result to its
//! caller: the call itself then decides it ([`Borrowed`], [`Mutates`]).
//!
//! The receiver then becomes one of three expressions. All of them are type-checked; the two that do not apply begin with a
//! call that returns [`Void`], so that the borrow checker does not count their moves and borrows.

use super::probe::{Casts, Copies, level};
use super::{Cast, Inside, Probe};
use std::marker::{PhantomData, PhantomPinned};
use std::ops::Deref;

mod taken;
pub use taken::*;

/// What never returns.
#[derive(Debug)]
pub enum Void {}

/// Code that asks for types does not run.
pub const ASKING: bool = false;

/// What the trait of an expansion returns: the value has no such method.
///
/// It is pinned, as hardly anything else is that methods return: a type that is not known yet is none of it.
#[derive(Clone, Copy, Debug)]
pub struct Missing(PhantomPinned);

/// What that trait's methods return.
pub const MISSING: Missing = Missing(PhantomPinned);

/// What is asked in place of a value whose treatment is known.
#[derive(Debug)]
pub struct Nothing;

/// Stands in code that never runs.
#[cold]
pub fn never() -> Void {
    absent()
}

/// A value in code that never runs.
#[cold]
pub fn absent<T>() -> T {
    unreachable!("code that is only there for its types")
}

/// Treatment of a receiver that is moved.
#[derive(Clone, Copy, Debug)]
pub struct Moves;

/// Treatment of a receiver that is borrowed by a method which returns an `R`.
#[derive(Debug)]
pub struct Borrowed<R>(PhantomData<fn() -> R>);

/// Treatment of a receiver that is borrowed exclusively by such a method.
#[derive(Debug)]
pub struct Mutates<R>(PhantomData<fn() -> R>);

/// A value that does not point to another.
#[derive(Clone, Copy, Debug)]
pub struct Itself;

/// A value that points to another, which points no further.
#[derive(Clone, Copy, Debug)]
pub struct Points;

/// What it points to.
#[derive(Clone, Copy, Debug)]
pub struct Pointee;

/// A value that points to another that points.
#[derive(Clone, Copy, Debug)]
pub struct PointsFar;

/// What that points to first.
#[derive(Clone, Copy, Debug)]
pub struct FarPointee;

/// An array, which is asked as the slice that it is.
#[derive(Clone, Copy, Debug)]
pub struct Array;

/// An exclusive reference.
#[derive(Clone, Copy, Debug)]
pub struct Exclusive;

/// An exclusive reference to a value that points to another.
#[derive(Clone, Copy, Debug)]
pub struct ExclusivePoints;

/// What that value points to.
#[derive(Clone, Copy, Debug)]
pub struct ExclusivePointee;

/// The answer of a call that was made for its type.
#[derive(Clone, Copy, Debug)]
pub struct Found<K, R>(K, PhantomData<fn() -> R>);

/// The call gives a value of this type.
pub fn found<K, R>(kind: K, _result: R) -> Found<K, R> {
    Found(kind, PhantomData)
}

level! {
    /// A receiver that is a tensor.
    ReceiverTensor, treatment => Casts;
    /// A receiver that is a shared reference to no tensor.
    ReceiverShared, treatment => Copies;
    /// A receiver that is an exclusive reference to what points on.
    ReceiverExclusivePoints, treatment => ExclusivePoints;
    /// A receiver that is an exclusive reference.
    ReceiverExclusive, treatment => Exclusive;
    /// A receiver that is an array.
    ReceiverArray, treatment => Array;
    /// A receiver that points to what points on.
    ReceiverPointsFar, treatment => PointsFar;
    /// A receiver that points to something.
    ReceiverPoints, treatment => Points;
    /// Any other receiver.
    ReceiverItself, treatment => Itself;
}

macro_rules! found {
    ($($(#[$doc:meta])* $trait:ident, $method:ident => $kind:ident: [$($result:tt)*] $found:ty;)*) => { $(
        $(#[$doc])*
        pub trait $trait<R> {
            /// The treatment.
            fn $method(&self) -> $kind<R>;
        }

        impl<K, $($result)*> $trait<R> for $found {
            fn $method(&self) -> $kind<R> {
                $kind(PhantomData)
            }
        }
    )* };
}
found! {
    /// A method that takes `&self` and returns what is not pinned, or what is not known yet.
    SurelyShared, shared => Borrowed: [R: Unpin] &&Found<K, R>;
    /// A method that takes `&mut self` and returns such a value.
    SurelyExclusive, exclusive => Mutates: [R: Unpin] &&Found<K, R>;
    /// A method that takes `&self`.
    FoundShared, shared => Borrowed: [R] Found<K, R>;
    /// A method that takes `&mut self`.
    FoundExclusive, exclusive => Mutates: [R] Found<K, R>;
}

impl<T: Inside, K> ReceiverTensor for &&&&&&&Probe<T, K>
where
    T::Tensor: Cast<K>,
{
    fn treatment(&self) -> Casts {
        Casts
    }
}

impl<T: ?Sized, K> ReceiverShared for &&&&&&Probe<&T, K> {
    fn treatment(&self) -> Copies {
        Copies
    }
}

impl<T: Deref + ?Sized, K> ReceiverExclusivePoints for &&&&&Probe<&mut T, K> {
    fn treatment(&self) -> ExclusivePoints {
        ExclusivePoints
    }
}

impl<T: ?Sized, K> ReceiverExclusive for &&&&Probe<&mut T, K> {
    fn treatment(&self) -> Exclusive {
        Exclusive
    }
}

impl<T, K, const N: usize> ReceiverArray for &&&Probe<[T; N], K> {
    fn treatment(&self) -> Array {
        Array
    }
}

impl<T: Deref<Target: Deref> + ?Sized, K> ReceiverPointsFar for &&Probe<T, K> {
    fn treatment(&self) -> PointsFar {
        PointsFar
    }
}

impl<T: Deref + ?Sized, K> ReceiverPoints for &Probe<T, K> {
    fn treatment(&self) -> Points {
        Points
    }
}

impl<T: ?Sized, K> ReceiverItself for Probe<T, K> {
    fn treatment(&self) -> Itself {
        Itself
    }
}

/// A value without such a method.
pub trait NotFound {
    /// What was asked for one.
    type Kind;
    /// The treatment is not known yet.
    fn shared(&self) -> Self::Kind;
    /// The treatment is not known yet.
    fn exclusive(&self) -> Self::Kind;
}

impl<K: Copy> NotFound for &Found<K, Missing> {
    type Kind = K;
    fn shared(&self) -> K {
        self.0
    }
    fn exclusive(&self) -> K {
        self.0
    }
}
