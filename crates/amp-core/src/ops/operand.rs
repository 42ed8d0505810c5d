//! The second argument of operations that take a tensor or a number.

use super::choice::written;
use crate::Result;
use crate::precision::{Element, Float, I64, SamePrecision, U8};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{DType, Dims, Storage};

/// What can stand beside a `Tensor<P>`: a tensor of the same precision, or a number.
///
/// A number is rounded once, to the precision of the arithmetic (F32, F64 for F64 tensors), never to 16 bits.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside a tensor of `{P}`",
    label = "neither a tensor nor a number",
    note = "a `Result` holds a tensor once it is unwrapped: put `?` behind it",
    note = "a number is an `f32` or an `f64`, by value: `n as f32`, `*n`; a parameter is `&p` beside F32, `p.to::<F16>()?` beside F16"
)]
pub trait Operand<P: Element> {
    /// Which of the two it is.
    #[doc(hidden)]
    fn term(self) -> Term;
}

/// A tensor or a number.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Term {
    Tensor(RawTensor),
    Number(f64),
    /// An integer, which F64 may not hold exactly.
    Integer(i64),
}

impl Term {
    /// The same, if it may be [`written`] into a tensor of a precision.
    pub(super) fn written(self, op: &'static str, dtype: DType) -> Result<Self> {
        if let Self::Number(number) = self {
            written(op, number, dtype)?;
        }
        Ok(self)
    }

    /// The same, if integers of `dtype` hold it.
    pub(super) fn held(self, op: &'static str, dtype: DType) -> Result<Self> {
        if dtype.is_float() { Ok(self) } else { self.written(op, dtype) }
    }

    /// The operand as a tensor that is compared with `other`: bytes with any integer.
    pub(super) fn compared(self, other: &RawTensor) -> Result<RawTensor> {
        match self {
            Self::Number(number) if other.logical == DType::U8 => {
                RawTensor::full(other.device(), number, Dims::default(), DType::I64)
            }
            operand => operand.beside(other),
        }
    }

    /// The operand as a tensor beside `other`, in the precision that arithmetic with `other` has.
    pub(super) fn beside(self, other: &RawTensor) -> Result<RawTensor> {
        let dtype = if other.logical.is_half() { DType::F32 } else { other.logical };
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            Self::Number(number) => RawTensor::full(other.device(), number, Dims::default(), dtype),
            Self::Integer(number) => {
                let buffer = other.backend().upload(Storage::I64(vec![number].into()))?;
                Ok(RawTensor::new(other.device(), buffer, Dims::default()))
            }
        }
    }
}

impl<P: Element + SamePrecision<Q>, Q: Element> Operand<P> for &Tensor<Q> {
    fn term(self) -> Term {
        Term::Tensor(self.raw.clone())
    }
}

impl<P: Element + SamePrecision<Q>, Q: Element> Operand<P> for Tensor<Q> {
    fn term(self) -> Term {
        Term::Tensor(self.raw)
    }
}

impl Operand<I64> for i64 {
    fn term(self) -> Term {
        const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
        if self.unsigned_abs() <= EXACT { Term::Number(self as f64) } else { Term::Integer(self) }
    }
}

macro_rules! numbers {
    ($($number:ident: $(<$p:ident: $bound:ident>)? $precision:ident;)*) => { $(
        impl $(<$p: $bound>)? Operand<$precision> for $number {
            fn term(self) -> Term {
                Term::Number(self as f64)
            }
        }
    )* };
}
numbers! {
    f32: <P: Float> P;
    f64: <P: Float> P;
    i32: <P: Float> P;
    i32: I64;
    i32: U8;
    u8: U8;
}
