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
decided!(Casts, Copies, Borrows, Mutates);

macro_rules! answers {
    ($($kind:ident),*) => { $(
        impl Answer for $kind {
            const ANSWER: Self = Self;
        }
    )* };
}
answers!(Casts, Copies, Borrows, Mutates, Moves);

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
absent!(moved: Casts, Copies, Borrows, Mutates);
absent!(lent: Casts, Copies, Borrows, Moves);
absent!(ahead: Copies, Borrows, Mutates, Moves);
absent!(lend: Mutates, Moves);

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
