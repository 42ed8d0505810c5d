//! The contract for this library's own tensors.

use super::{Cast, Inside, Late, Plain, Precise, Recast, To, WritesDirectly, Writing, cast};
use crate::error::Error;
use crate::nn::LstmState;
use crate::ops::{BatchStatistics, Part};
use crate::param::Parameter;
use crate::precision::{AutocastPrecision, Bool, Element, F32, F64, Float, I64, Rounded, Rounding, U8};
use crate::tensor::Tensor;
use amp_cpu::DType;
use std::any::Any;

impl<P: Element> Inside for Tensor<P> {
    type Tensor = Self;
    fn inside(&self) -> &Self {
        self
    }
}

impl<P: AutocastPrecision> Precise for Tensor<P> {
    type Precision = P;
}

impl<P: Element> Plain for Tensor<P> {}

impl Inside for Parameter {
    type Tensor = Self;
    fn inside(&self) -> &Self {
        self
    }
}

/// A tensor of F32, which it is by this if it was made without a type.
pub fn of_f32<T: OfF32>(value: T) -> T {
    value
}

/// What is F32 where nothing else says so.
pub trait OfF32 {}

impl OfF32 for Tensor<F32> {}
impl OfF32 for &Tensor<F32> {}
impl<T: OfF32, E> OfF32 for Result<T, E> {}

impl Precise for Parameter {
    type Precision = F32;
}

impl<Q: AutocastPrecision> Cast<To<Q>> for Parameter {
    type Output = Tensor<Q>;
    fn cast(&self, _to: To<Q>) -> Tensor<Q> {
        view(&self.tensor())
    }
}

/// Whether two precisions are the two 16-bit ones.
const fn are_apart<P: Element, Q: Element>() -> bool {
    matches!((P::DTYPE, Q::DTYPE), (DType::F16, DType::BF16) | (DType::BF16, DType::F16))
}

impl<P: AutocastPrecision, Q: AutocastPrecision> Cast<To<Q>> for Tensor<P> {
    type Output = Tensor<Q>;
    const TOGETHER: () =
        assert!(!are_apart::<P, Q>(), "`F16` and `BF16` are never cast to each other for you: write `.to()`");
    fn cast(&self, _to: To<Q>) -> Tensor<Q> {
        view(self)
    }
    #[inline]
    fn unchanged(&self) -> Option<&Tensor<Q>> {
        (self as &dyn Any).downcast_ref()
    }
}

impl<P: Element, K> Late<K> for Tensor<P>
where
    Self: Cast<K>,
{
    type Output = <Self as Cast<K>>::Output;
    fn late(self, to: K) -> Self::Output {
        cast(&self, to)
    }
}

impl<P: AutocastPrecision, Q: AutocastPrecision> Recast<To<Q>> for Tensor<P> {
    type Output = Tensor<Q>;
    fn recast(self, _to: To<Q>) -> Tensor<Q> {
        view(&self)
    }
}

impl<P: AutocastPrecision> WritesDirectly for Tensor<P> {}
impl WritesDirectly for Parameter {}

impl<P: AutocastPrecision, L: AutocastPrecision> Cast<Writing<L>> for Tensor<P> {
    type Output = Tensor<Rounding<L>>;
    fn cast(&self, _to: Writing<L>) -> Tensor<Rounding<L>> {
        view(self)
    }
}

impl<L: AutocastPrecision> Cast<Writing<L>> for Parameter {
    type Output = Tensor<Rounding<L>>;
    fn cast(&self, _to: Writing<L>) -> Tensor<Rounding<L>> {
        view(&self.tensor())
    }
}

/// What was rounded as it was written is F32 as before.
impl<L: AutocastPrecision, Q: AutocastPrecision> Recast<To<Q>> for Tensor<Rounding<L>> {
    type Output = Tensor<Q>;
    fn recast(self, _to: To<Q>) -> Tensor<Q> {
        view(&self)
    }
}

/// The same of a function's result.
impl<L: AutocastPrecision, Q: AutocastPrecision> Recast<To<Q>> for Tensor<Rounded<L>> {
    type Output = Tensor<Q>;
    fn recast(self, _to: To<Q>) -> Tensor<Q> {
        view(&self)
    }
}

/// Statistics are in F32 whatever is written beside them.
impl<L: AutocastPrecision, Q: AutocastPrecision> Recast<To<Q>> for BatchStatistics<Rounding<L>> {
    type Output = BatchStatistics<Q>;
    fn recast(self, _to: To<Q>) -> BatchStatistics<Q> {
        BatchStatistics { mean: view(&self.mean), var: view(&self.var) }
    }
}

/// Indices, masks and F64 stay what they are beside a tensor that is cast.
macro_rules! never_cast {
    ($($precision:ty),*) => { $(
        impl<K> Recast<K> for Tensor<$precision> {
            type Output = Self;
            fn recast(self, _to: K) -> Self {
                self
            }
        }
    )* };
}
never_cast!(F64, I64, U8, Bool);

/// A state is cast like the tensor of its hidden values; the cell's are in F32 always.
impl<P: Float> Inside for LstmState<P> {
    type Tensor = Self;
    fn inside(&self) -> &Self {
        self
    }
}

impl<P: AutocastPrecision> Precise for LstmState<P> {
    type Precision = P;
}

impl<P: Float> Plain for LstmState<P> {}

impl<P: AutocastPrecision, Q: AutocastPrecision> Cast<To<Q>> for LstmState<P> {
    type Output = LstmState<Q>;
    const TOGETHER: () = <Tensor<P> as Cast<To<Q>>>::TOGETHER;
    fn cast(&self, _to: To<Q>) -> LstmState<Q> {
        LstmState { h: view(&self.h), c: self.c.clone() }
    }
    #[inline]
    fn unchanged(&self) -> Option<&LstmState<Q>> {
        (self as &dyn Any).downcast_ref()
    }
}

impl<P: AutocastPrecision, Q: AutocastPrecision> Recast<To<Q>> for LstmState<P> {
    type Output = LstmState<Q>;
    fn recast(self, _to: To<Q>) -> LstmState<Q> {
        LstmState { h: view(&self.h), c: self.c }
    }
}

/// The tensors of a list, which may be one of references, for an operation that joins them.
pub fn tensors<P: Element>(list: &[impl Part<P>]) -> Vec<Tensor<P>> {
    list.iter().map(|one| one.tensor().clone()).collect()
}

/// A cast between F16, BF16 and F32 is a view. Work happens only where a narrowed value is widened before any kernel has
/// read it, and that fails only when the device has no memory left.
fn view<P: Float, Q: Float>(x: &Tensor<P>) -> Tensor<Q> {
    x.to().unwrap_or_else(|error| no_memory(&error))
}

/// Out of line, so that a cast is as little code as one by hand with its `?`.
#[cold]
#[inline(never)]
fn no_memory(error: &Error) -> ! {
    panic!("the device has no memory for the rounded copy of a tensor: {error}")
}
