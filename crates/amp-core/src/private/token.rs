//! Targets of casts as values, and where two of them meet.

use super::Cast;
use crate::precision::{AutocastPrecision, BF16, F16, F32};
use std::marker::PhantomData;

/// "Cast to precision `P`".
#[derive(Debug)]
pub struct To<P>(PhantomData<fn() -> P>);

impl<P> Clone for To<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for To<P> {}

/// The target `P`.
pub const fn to<P>() -> To<P> {
    To(PhantomData)
}

/// What the attribute names is a precision.
pub const fn region<P: AutocastPrecision>() {}

/// The target F16.
pub const TO_F16: To<F16> = to();
/// The target BF16.
pub const TO_BF16: To<BF16> = to();
/// The target F32.
pub const TO_F32: To<F32> = to();

/// "Round to precision `P` and widen again": the values of `P` in an operation that exists in F32 only.
#[derive(Debug)]
pub struct Through<P>(To<P>);

impl<P> Clone for Through<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Through<P> {}

/// The target that rounds on the way.
pub const fn through<P>(to: To<P>) -> Through<P> {
    Through(to)
}

impl<T: Cast<To<P>, Output: Cast<To<F32>>>, P> Cast<Through<P>> for T {
    type Output = <T::Output as Cast<To<F32>>>::Output;
    const TOGETHER: () = <T as Cast<To<P>>>::TOGETHER;
    fn cast(&self, through: Through<P>) -> Self::Output {
        self.cast(through.0).cast(to::<F32>())
    }
}

/// "Leave it as it is".
#[derive(Clone, Copy, Debug)]
pub struct Keep;

/// "Leave it as it is": the sides that were asked so far do not meet, unless at F32.
#[derive(Clone, Copy, Debug)]
pub struct Apart;

/// Two targets that are to become one: the widest.
#[derive(Clone, Copy, Debug)]
pub struct Pair<A, B>(pub A, pub B);

impl<P> To<P> {
    /// What a tensor of `P` is cast to.
    pub const fn cast_to<K>(self, to: K) -> K
    where
        K: Copy,
    {
        to
    }
}

impl Keep {
    /// What is no tensor is not cast.
    pub const fn cast_to<K>(self, _to: K) -> Self
    where
        K: Copy,
    {
        self
    }
}

/// Pairs two targets.
pub const fn pair<A, B>(a: A, b: B) -> Pair<A, B> {
    Pair(a, b)
}

/// A quotient of `L` whose operands meet at `K`.
#[derive(Debug)]
pub struct Quotient<L: ?Sized, K>(PhantomData<fn() -> *const L>, K);

/// Asks where a quotient of this runs: a number over a tensor is no quotient of tensors.
pub const fn quotient<L: ?Sized, K>(_left: &L, met: K) -> Quotient<L, K> {
    Quotient(PhantomData, met)
}

impl<P> Quotient<f64, To<P>> {
    /// In F32, as `recip`.
    pub fn token(self) -> To<F32> {
        to()
    }
}

/// Any other quotient.
pub trait OtherQuotient {
    /// The target.
    type Token;
    /// Where its operands meet.
    fn token(self) -> Self::Token;
}

impl<L: ?Sized, K> OtherQuotient for Quotient<L, K> {
    type Token = K;
    fn token(self) -> K {
        self.1
    }
}

macro_rules! level {
    ($(#[$doc:meta])* $trait:ident) => {
        $(#[$doc])*
        pub trait $trait {
            /// The target both sides are cast to.
            type Token;
            /// Where the two meet.
            fn meet(&self) -> Self::Token;
        }
    };
}
level!(
    /// Both sides carry their precision at run time.
    SameRuntime
);
level!(
    /// Both sides have one precision.
    SameToken
);
level!(
    /// The right side is F32.
    RightF32
);
level!(
    /// The left side is F32.
    LeftF32
);
level!(
    /// Only the right side is a tensor.
    LeftAbsent
);
level!(
    /// Only the left side is a tensor.
    RightAbsent
);
level!(
    /// The sides have no common precision: the call stays as written and the types decide.
    NeverMeet
);

impl<T: super::RuntimeToken> SameRuntime for &&&&&&Pair<T, T> {
    type Token = T;
    fn meet(&self) -> T {
        self.0.widest(self.1)
    }
}

impl<P> SameToken for &&&&&Pair<To<P>, To<P>> {
    type Token = To<P>;
    fn meet(&self) -> To<P> {
        to()
    }
}

impl<P> RightF32 for &&&&Pair<To<P>, To<F32>> {
    type Token = To<F32>;
    fn meet(&self) -> To<F32> {
        to()
    }
}

impl RightF32 for &&&&Pair<Apart, To<F32>> {
    type Token = To<F32>;
    fn meet(&self) -> To<F32> {
        to()
    }
}

impl<P> LeftF32 for &&&Pair<To<F32>, To<P>> {
    type Token = To<F32>;
    fn meet(&self) -> To<F32> {
        to()
    }
}

impl<B: Copy> LeftAbsent for &&Pair<Keep, B> {
    type Token = B;
    fn meet(&self) -> B {
        self.1
    }
}

impl<A: Copy> RightAbsent for &Pair<A, Keep> {
    type Token = A;
    fn meet(&self) -> A {
        self.0
    }
}

impl<A, B> NeverMeet for Pair<A, B> {
    type Token = Apart;
    fn meet(&self) -> Apart {
        Apart
    }
}
