//! What an argument becomes between its cast and the call.

use super::{Cast, Inside, absent};

/// A tensor at its target: the place that holds it, if it is there already, or its cast.
///
/// Which of the two, the types say: of a release build nothing remains but the one that applies.
#[derive(Debug)]
pub enum Held<A, T> {
    /// The place, and how its tensor is reached.
    Unchanged(A, fn(&A) -> &T),
    /// The cast.
    Cast(T),
}

impl<A, T> Held<A, T> {
    /// Casts the tensor in `place`, if that changes it.
    pub(super) fn new<K>(place: A, to: K) -> Self
    where
        A: Inside<Tensor: Cast<K, Output = T>>,
    {
        match place.inside().unchanged() {
            Some(_) => Self::Unchanged(place, |place| place.inside().unchanged().unwrap_or_else(absent)),
            None => Self::Cast(place.inside().cast(to)),
        }
    }

    /// The argument of the call.
    pub fn pass(&self) -> &T {
        match self {
            Self::Unchanged(place, tensor) => tensor(place),
            Self::Cast(tensor) => tensor,
        }
    }
}

/// A target, seen from its own side: of a place whose type is a mistake it still says what it is itself.
pub trait Casting<A> {
    /// The tensor in the place, at this target.
    type Held;
    /// Casts it, if that changes it.
    fn held(self, place: A) -> Self::Held;
}

impl<A: Inside<Tensor: Cast<K>>, K> Casting<A> for K {
    type Held = Held<A, <A::Tensor as Cast<K>>::Output>;
    fn held(self, place: A) -> Self::Held {
        Held::new(place, self)
    }
}

/// An optional tensor that was cast.
#[derive(Debug)]
pub struct HeldOption<T>(pub(super) Option<T>);

impl<T> HeldOption<T> {
    /// The argument of the call.
    pub fn pass(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

/// Anything that is not a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Moved<A>(pub(super) A);

impl<A> Moved<A> {
    /// The argument of the call.
    pub fn pass(self) -> A {
        self.0
    }
}
