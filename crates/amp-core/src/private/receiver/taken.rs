//! What becomes of a receiver once it is known how the call takes it: the three expressions, of which one is run.

use super::*;
use crate::private::probe::Answer;
use crate::private::{Keep, Moved};

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
    ($($kind:ty $([$result:ident])?),*) => { $(
        impl$(<$result>)? $kind {
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
decided!(Casts, Copies, Borrowed<R> [R], Mutates<R> [R]);

macro_rules! answers {
    ($($kind:ident),*) => { $(
        impl Answer for $kind {
            const ANSWER: Self = Self;
        }

        impl $kind {
            /// What the call returns.
            pub fn of<R>(self, result: R) -> R {
                result
            }
        }
    )* };
}
answers!(Casts, Copies, Moves);

macro_rules! answers_with {
    ($($kind:ident),*) => { $(
        impl<R> Clone for $kind<R> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<R> Copy for $kind<R> {}

        impl<R> Answer for $kind<R> {
            const ANSWER: Self = Self(PhantomData);
        }

        impl<R> $kind<R> {
            /// What the call returns.
            pub fn of(self, result: R) -> R {
                result
            }
        }
    )* };
}
answers_with!(Borrowed, Mutates);

macro_rules! asked {
    ($($kind:ident [$($param:tt)*] $place:ty => $of:ty, then $next:ident, at last $last:ident $([$result:ident])?;)*) => { $(
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
            pub fn decided$(<$result>)?(self) -> $last$(<$result>)? {
                Answer::ANSWER
            }

            /// The treatment when no method was found and the receiver cannot be moved.
            pub fn borrowed<R>(self) -> Borrowed<R> {
                Borrowed(PhantomData)
            }
        }
    )* };
}
asked! {
    Itself [T: ?Sized] T => T, then Itself, at last Moves;
    Points [T: ?Sized] T => T, then Pointee, at last Moves;
    Pointee [T: Deref + ?Sized] T => T::Target, then Pointee, at last Moves;
    PointsFar [T: ?Sized] T => T, then FarPointee, at last Borrowed [R];
    FarPointee [T: Deref + ?Sized] T => T::Target, then FarPointee, at last Borrowed [R];
    Array [T] [T] => [T], then Array, at last Moves;
    Exclusive [T: ?Sized] &mut T => T, then Exclusive, at last Mutates [R];
    ExclusivePoints [T: ?Sized] &mut T => T, then ExclusivePointee, at last Mutates [R];
    ExclusivePointee [T: Deref + ?Sized] &mut T => T::Target, then ExclusivePointee, at last Mutates [R];
}

macro_rules! expressions {
    ($($kind:ty $([$result:ident])?:
        $casts:literal $by_cast:tt, $moves:literal $by_move:tt, $mutates:literal $by_mut:tt, $by_ref:tt;)*) => { $(
        impl$(<$result>)? $kind {
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
    Casts: true (), false Void, false Void, ();
    Copies: false Void, false Void, false Void, ();
    Borrowed<R> [R]: false Void, false Void, false Void, ();
    Mutates<R> [R]: false Void, false Void, true (), Void;
    Moves: false Void, true (), false Void, Void;
}

macro_rules! absent {
    ($method:ident: $($kind:ty $([$result:ident])?),*) => { $(
        impl$(<$result>)? $kind {
            /// This is not what becomes of it.
            pub fn $method<A, B>(self, _value: A) -> B {
                absent()
            }
        }
    )* };
}
absent!(moved: Casts, Copies, Borrowed<R> [R], Mutates<R> [R]);
absent!(lent: Casts, Copies, Borrowed<R> [R], Moves);
absent!(ahead: Copies, Borrowed<R> [R], Mutates<R> [R], Moves);
absent!(lend: Mutates<R> [R], Moves);

impl Casts {
    /// The cast that was made ahead.
    pub fn ahead<A>(self, value: A) -> A {
        value
    }

    /// This is not what becomes of it.
    pub fn lend<A, B>(self, _place: A) -> B {
        absent()
    }
}

impl Moves {
    /// Takes the receiver.
    pub fn moved<A>(self, value: A) -> Moved<A> {
        Moved(value)
    }
}

impl<R> Mutates<R> {
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

impl<R> Borrowed<R> {
    /// Takes the receiver.
    pub fn lend<T: ?Sized>(self, place: &T) -> Moved<&T> {
        Moved(place)
    }

    /// As [`lend`](Self::lend): it is no tensor.
    pub fn take<T: ?Sized, K>(self, place: &T, _to: K) -> Moved<&T> {
        Moved(place)
    }
}

macro_rules! no_tensor {
    ($($kind:ty $([$result:ident])?),*) => { $(
        impl$(<$result>)? $kind {
            /// The target of the other arguments when this is the receiver: a call on something else stays as it is.
            pub fn gate<K>(self, _to: K) -> Keep {
                Keep
            }
        }
    )* };
}
no_tensor!(Moves, Borrowed<R> [R], Mutates<R> [R]);

macro_rules! not_borrowed {
    ($($kind:ty $([$result:ident])?),*) => { $(
        impl$(<$result>)? $kind {
            /// This is not what becomes of it.
            pub fn take<A, K, B>(self, _place: A, _to: K) -> B {
                absent()
            }
        }
    )* };
}
not_borrowed!(Moves, Mutates<R> [R]);
