//! What an argument becomes between its cast and the call.

use super::{Cast, Inside, Probe, Recast, absent};

/// A tensor at its target: the place that holds it, if it is there already, or its cast.
///
/// The types decide which of the two it is; in a release build only that one remains.
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
    /// That of [`Cast`].
    const TOGETHER: ();
    /// Casts it, if that changes it.
    fn held(self, place: A) -> Self::Held;
}

impl<A: Inside<Tensor: Cast<K>>, K> Casting<A> for K {
    type Held = Held<A, <A::Tensor as Cast<K>>::Output>;
    const TOGETHER: () = <A::Tensor as Cast<K>>::TOGETHER;
    fn held(self, place: A) -> Self::Held {
        Held::new(place, self)
    }
}

impl<A: Inside<Tensor: Cast<K>>, K> Casting<Option<A>> for K {
    type Held = HeldOption<<A::Tensor as Cast<K>>::Output>;
    const TOGETHER: () = <A::Tensor as Cast<K>>::TOGETHER;
    fn held(self, place: Option<A>) -> Self::Held {
        HeldOption(place.map(|value| value.inside().cast(self)))
    }
}

/// A list of tensors that was cast, for an operation of somebody's own that takes several.
#[derive(Debug)]
pub struct HeldList<L>(L);

impl<L> HeldList<L> {
    /// The argument of the call.
    pub fn pass(&self) -> &L {
        &self.0
    }
}

/// The same of a slice.
#[derive(Debug)]
pub struct HeldSlice<T>(Vec<T>);

impl<T> HeldSlice<T> {
    /// The argument of the call.
    pub fn pass(&self) -> &[T] {
        &self.0
    }
}

macro_rules! lists {
    ($([$($count:tt)*] $list:ty, $held:ident, $kept:ty;)*) => { $(
        impl<V: Clone + Recast<K> + Inside<Tensor: Cast<K>>, K: Copy, $($count)*> Casting<&$list> for K {
            type Held = $held<$kept>;
            const TOGETHER: () = <V::Tensor as Cast<K>>::TOGETHER;
            fn held(self, list: &$list) -> Self::Held {
                $held(list.to_owned().recast(self))
            }
        }
    )* };
}
lists! {
    [] [V], HeldSlice, V::Output;
    [] Vec<V>, HeldList, Vec<V::Output>;
    [const N: usize] [V; N], HeldList, [V::Output; N];
}

/// A value and what it is cast to if it is a tensor: `.hold()` of an argument, `.lend()` of a reference to a place.
///
/// What has these methods itself is a tensor, or an optional one. Anything else has them of the traits below.
#[derive(Debug)]
pub struct Given<A, K>(pub A, pub K);

impl<A, K: Casting<A>> Given<A, K> {
    /// Casts the argument.
    pub fn hold(self) -> K::Held {
        const { K::TOGETHER }
        self.1.held(self.0)
    }

    /// Casts what is in the place.
    pub fn lend(self) -> K::Held {
        const { K::TOGETHER }
        self.1.held(self.0)
    }
}

/// An argument that is no tensor.
pub trait AsIs {
    /// What it is.
    type Value;
    /// Moves it along.
    fn hold(self) -> Moved<Self::Value>;
}

impl<A, K> AsIs for Given<A, K> {
    type Value = A;
    fn hold(self) -> Moved<A> {
        Moved(self.0)
    }
}

impl<A, K: Casting<A>> Probe<A, K> {
    /// Casts the argument in a place: what is an exclusive reference is borrowed anew, as it is in the call as written.
    pub fn hold(self, place: A, to: K) -> K::Held {
        const { K::TOGETHER }
        to.held(place)
    }
}

/// An argument in a place that is no tensor.
pub trait PlaceAsIs {
    /// What it is.
    type Value;
    /// The target.
    type To;
    /// Moves it along, or borrows it anew.
    fn hold(self, place: Self::Value, to: Self::To) -> Moved<Self::Value>;
}

impl<A, K> PlaceAsIs for Probe<A, K> {
    type Value = A;
    type To = K;
    fn hold(self, place: A, _to: K) -> Moved<A> {
        Moved(place)
    }
}

/// A place that is no tensor and can be copied.
pub trait ByCopy {
    /// What is in it.
    type Value;
    /// Copies it.
    fn lend(self) -> Moved<Self::Value>;
}

impl<A: Copy, K> ByCopy for Given<&A, K> {
    type Value = A;
    fn lend(self) -> Moved<A> {
        Moved(*self.0)
    }
}

/// Any other place.
pub trait ByPlace {
    /// The reference to it.
    type Place;
    /// Passes it on.
    fn lend(self) -> Moved<Self::Place>;
}

impl<'a, A: ?Sized, K> ByPlace for &Given<&'a A, K> {
    type Place = &'a A;
    fn lend(self) -> Moved<&'a A> {
        Moved(self.0)
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
