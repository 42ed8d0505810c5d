//! The receiver of a call that has an operation's name and may be no tensor: it has to be what it is in the call as
//! written, which moves it, borrows it or borrows it exclusively.
//!
//! Which of the three a method does, its name does not say; an expansion asks the compiler. In code that is checked for
//! its types and never runs, the call is made on a reference to the value, while a trait of the expansion gives every
//! reference a method of that name: who has a method that takes `&self` (or `&mut self`) does not get as far as that
//! trait's, which tells by the type of its result that there was none. What remains takes `self`.
//!
//! The receiver is then one of three expressions. All of them are checked for their types; the two that do not apply
//! begin with a call that returns [`Void`], so that for moves and borrows they are no part of the function.

use super::probe::{Borrows, Casts, Copies, Same};
use super::{Cast, Inside, Keep, Moved, Plain, Precise, Probe, To};
use std::ops::Deref;

/// What never returns.
#[derive(Debug)]
pub enum Void {}

/// Code that asks for types does not run.
pub const ASKING: bool = false;

/// What the trait of an expansion returns: the value has no such method.
#[derive(Clone, Copy, Debug)]
pub struct Missing;

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

/// Treatment of a receiver that is borrowed exclusively.
#[derive(Clone, Copy, Debug)]
pub struct Mutates;

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
pub struct Found<K, R>(K, std::marker::PhantomData<fn() -> R>);

/// The call gives a value of this type.
pub fn found<K, R>(kind: K, _result: R) -> Found<K, R> {
    Found(kind, std::marker::PhantomData)
}

/// The same answer without the call.
pub const fn unasked<K: Copy, R>(kind: K) -> Found<K, R> {
    Found(kind, std::marker::PhantomData)
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
    /// A receiver whose tensor has the target precision.
    ReceiverKeeps, treatment => Same;
    /// A receiver that is a tensor of another precision.
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
    /// A method that takes `&self`.
    FoundShared, shared => Borrows;
    /// A method that takes `&mut self`.
    FoundExclusive, exclusive => Mutates;
}

impl<T: Inside, P> ReceiverKeeps for &&&&&&&&Probe<'_, T, To<P>>
where
    T::Tensor: Precise<Precision = P> + Plain,
{
    fn treatment(&self) -> Same {
        Same
    }
}

impl<T: Inside, K> ReceiverTensor for &&&&&&&Probe<'_, T, K>
where
    T::Tensor: Cast<K>,
{
    fn treatment(&self) -> Casts {
        Casts
    }
}

impl<T: ?Sized, K> ReceiverShared for &&&&&&Probe<'_, &T, K> {
    fn treatment(&self) -> Copies {
        Copies
    }
}

impl<T: Deref + ?Sized, K> ReceiverExclusivePoints for &&&&&Probe<'_, &mut T, K> {
    fn treatment(&self) -> ExclusivePoints {
        ExclusivePoints
    }
}

impl<T: ?Sized, K> ReceiverExclusive for &&&&Probe<'_, &mut T, K> {
    fn treatment(&self) -> Exclusive {
        Exclusive
    }
}

impl<T, K, const N: usize> ReceiverArray for &&&Probe<'_, [T; N], K> {
    fn treatment(&self) -> Array {
        Array
    }
}

impl<T: Deref<Target: Deref> + ?Sized, K> ReceiverPointsFar for &&Probe<'_, T, K> {
    fn treatment(&self) -> PointsFar {
        PointsFar
    }
}

impl<T: Deref + ?Sized, K> ReceiverPoints for &Probe<'_, T, K> {
    fn treatment(&self) -> Points {
        Points
    }
}

impl<T: ?Sized, K> ReceiverItself for Probe<'_, T, K> {
    fn treatment(&self) -> Itself {
        Itself
    }
}

impl<K, R> FoundShared for Found<K, R> {
    fn shared(&self) -> Borrows {
        Borrows
    }
}

impl<K, R> FoundExclusive for Found<K, R> {
    fn exclusive(&self) -> Mutates {
        Mutates
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

/// Gives a receiver away as a method would: what is an exclusive reference is borrowed anew.
pub trait Give: Sized {
    /// The value.
    fn __amp_move(self) -> Self {
        self
    }
}

impl<T> Give for T {}

/// Borrows a receiver as a method would.
pub trait Lend {
    /// The reference.
    fn __amp_borrow(&mut self) -> &mut Self {
        self
    }
}

impl<T: ?Sized> Lend for T {}

macro_rules! decided {
    ($($kind:ty),*) => { $(
        impl $kind {
            /// There is nothing to ask.
            pub fn asks<T: ?Sized>(self, _place: &T) -> &'static Nothing {
                absent()
            }

            /// There is nothing to ask.
            pub fn asks_exclusive<T: ?Sized>(self, _place: &T) -> &'static mut Nothing {
                absent()
            }

            /// What is asked next.
            pub fn next(self) -> Self {
                self
            }

            /// The treatment.
            pub fn decided(self) -> Self {
                self
            }

            /// The treatment.
            pub fn borrowed(self) -> Self {
                self
            }
        }
    )* };
}
decided!(Same, Casts, Copies, Borrows, Mutates);

macro_rules! asked {
    ($($kind:ident [$($param:tt)*] $place:ty => $of:ty, then $next:ident, at last $last:ident;)*) => { $(
        impl $kind {
            /// What is asked for a method that takes `&self`.
            pub fn asks<'a, $($param)*>(self, _place: &'a $place) -> &'a $of {
                absent()
            }

            /// What is asked for a method that takes `&mut self`.
            pub fn asks_exclusive<'a, $($param)*>(self, _place: &'a $place) -> &'a mut $of {
                absent()
            }

            /// What is asked next.
            pub fn next(self) -> $next {
                $next
            }

            /// The treatment when no method was found.
            pub fn decided(self) -> $last {
                $last
            }

            /// The treatment when no method was found and the receiver cannot be moved.
            pub fn borrowed(self) -> Borrows {
                Borrows
            }
        }
    )* };
}
asked! {
    Itself [T: ?Sized] T => T, then Itself, at last Moves;
    Points [T: ?Sized] T => T, then Pointee, at last Moves;
    Pointee [T: Deref + ?Sized] T => T::Target, then Pointee, at last Moves;
    PointsFar [T: ?Sized] T => T, then FarPointee, at last Borrows;
    FarPointee [T: Deref + ?Sized] T => T::Target, then FarPointee, at last Borrows;
    Array [T] [T] => [T], then Array, at last Moves;
    Exclusive [T: ?Sized] &mut T => T, then Exclusive, at last Mutates;
    ExclusivePoints [T: ?Sized] &mut T => T, then ExclusivePointee, at last Mutates;
    ExclusivePointee [T: Deref + ?Sized] &mut T => T::Target, then ExclusivePointee, at last Mutates;
}

macro_rules! expressions {
    ($($kind:ty: $casts:literal $by_cast:tt, $moves:literal $by_move:tt, $mutates:literal $by_mut:tt, $by_ref:tt;)*) => { $(
        impl $kind {
            /// Whether the receiver is a tensor.
            pub fn casts(self) -> bool {
                $casts
            }

            /// Comes back if it is a tensor.
            pub fn if_cast(self) -> $by_cast {
                expressions!(@comes $by_cast)
            }

            /// Whether the receiver is moved.
            pub fn moves(self) -> bool {
                $moves
            }

            /// Whether it is borrowed exclusively.
            pub fn mutates(self) -> bool {
                $mutates
            }

            /// Comes back if it is moved.
            pub fn if_moved(self) -> $by_move {
                expressions!(@comes $by_move)
            }

            /// Comes back if it is borrowed exclusively.
            pub fn if_mutated(self) -> $by_mut {
                expressions!(@comes $by_mut)
            }

            /// Comes back if it is borrowed.
            pub fn if_shared(self) -> $by_ref {
                expressions!(@comes $by_ref)
            }
        }
    )* };
    (@comes ()) => { () };
    (@comes Void) => { never() };
}
expressions! {
    Same: true (), false Void, false Void, ();
    Casts: true (), false Void, false Void, ();
    Copies: false Void, false Void, false Void, ();
    Borrows: false Void, false Void, false Void, ();
    Mutates: false Void, false Void, true (), Void;
    Moves: false Void, true (), false Void, Void;
}

macro_rules! absent {
    ($method:ident: $($kind:ty),*) => { $(
        impl $kind {
            /// This is not what becomes of it.
            pub fn $method<A, B>(self, _value: A) -> B {
                absent()
            }
        }
    )* };
}
absent!(moved: Same, Casts, Copies, Borrows, Mutates);
absent!(lent: Same, Casts, Copies, Borrows, Moves);
absent!(ahead: Copies, Borrows, Mutates, Moves);
absent!(lend: Mutates, Moves);

macro_rules! made_ahead {
    ($($kind:ty),*) => { $(
        impl $kind {
            /// The cast that was made ahead.
            pub fn ahead<A>(self, value: A) -> A {
                value
            }

            /// This is not what becomes of it.
            pub fn lend<A, B>(self, _place: A) -> B {
                absent()
            }
        }
    )* };
}
made_ahead!(Same, Casts);

impl Moves {
    /// Takes the receiver.
    pub fn moved<A>(self, value: A) -> Moved<A> {
        Moved(value)
    }
}

impl Mutates {
    /// Takes the receiver.
    pub fn lent<A>(self, value: A) -> Moved<A> {
        Moved(value)
    }
}

impl Copies {
    /// Takes the receiver.
    pub fn lend<T: Copy>(self, place: &T) -> Moved<T> {
        Moved(*place)
    }
}

impl Borrows {
    /// Takes the receiver.
    pub fn lend<T: ?Sized>(self, place: &T) -> Moved<&T> {
        Moved(place)
    }
}

macro_rules! no_tensor {
    ($($kind:ty),*) => { $(
        impl $kind {
            /// The target of the other arguments when this is the receiver: a call on something else stays as it is.
            pub fn gate<K>(self, _to: K) -> Keep {
                Keep
            }

            /// This is not what becomes of it.
            pub fn take<A, K, B>(self, _place: A, _to: K) -> B {
                absent()
            }
        }
    )* };
}
no_tensor!(Moves, Mutates);
