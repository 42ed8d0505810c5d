//! Values of F16 and BF16 that would be one: neither holds the other, and where nothing else is F32 nothing says that both be.

use crate::precision::{BF16, Element, F16};
use crate::tensor::Tensor;

/// Implemented by nothing: the bound that rejects such values.
#[diagnostic::on_unimplemented(
    message = "`F16` and `BF16` tensors meet here",
    label = "some of these values are `F16`, others `BF16`",
    note = "the two are never cast to each other for you: write `.to()`"
)]
pub trait HalvesMeet {}

/// A tensor, a reference to one, or what one is in.
pub trait Holds {
    /// The precision of it.
    type Precision;
}

impl<P: Element> Holds for Tensor<P> {
    type Precision = P;
}

impl<T: Holds> Holds for &T {
    type Precision = T::Precision;
}

impl<T: Holds> Holds for Option<T> {
    type Precision = T::Precision;
}

impl<T: Holds, E> Holds for Result<T, E> {
    type Precision = T::Precision;
}

/// What was seen of several values: none yet.
#[derive(Debug)]
pub struct Start;

/// Some are F16, others BF16.
#[derive(Debug)]
pub struct Both;

/// What is seen with one more, of 16 bits. Of a type parameter nothing is known.
pub trait And<P> {
    /// It.
    type Seen;
}

macro_rules! and {
    ($($seen:ident, $more:ident => $now:ident;)*) => { $(impl And<$more> for $seen { type Seen = $now; })* };
}
and! {
    Start, F16 => F16; Start, BF16 => BF16; F16, F16 => F16; BF16, BF16 => BF16;
    F16, BF16 => Both; BF16, F16 => Both; Both, F16 => Both; Both, BF16 => Both;
}

/// A list of types of which some are F16 and all others BF16, behind those that were seen.
pub trait Halved<S> {}

impl Halved<Both> for () {}
impl<S: And<A::Precision>, A: Holds, L: Halved<S::Seen>> Halved<S> for (A, L) {}
