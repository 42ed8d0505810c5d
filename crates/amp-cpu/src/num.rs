//! What reductions ask of the types that kernels compute in.

use crate::convert::{Compute, Stored};
use crate::math::Float;
use crate::reduce::block::{fold_block, fold_in_registers};
use crate::reduce::fold::Fold;
use crate::scratch::Plain;
use crate::simd::{Array, Lanes, Simd};
use crate::{DType, Storage};

/// A type to reduce in: F32 for 16- and 32-bit floats, F64 for F64, I64 for integers and truth values.
pub(crate) trait Num: Compute + Plain {
    /// Tag of this type.
    const DTYPE: DType;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Nothing is less.
    const LEAST: Self;
    /// Nothing is greater.
    const GREATEST: Self;

    /// Wraps a vector without copying it.
    fn storage(values: Vec<Self>) -> Storage;
    /// `a + b`; integers wrap.
    fn add(self, other: Self) -> Self;
    /// `a * b`; integers wrap.
    fn mul(self, other: Self) -> Self;
    /// `|a|`; integers wrap.
    fn magnitude(self) -> Self;
    /// What `F` makes of one block.
    fn fold<S: Simd, F: Fold<Self>>(block: &[Self]) -> Self;

    /// Whether this is no number.
    #[inline(always)]
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    fn is_nan(self) -> bool {
        self != self
    }
}

/// A floating-point type to reduce in.
pub(crate) trait Real: Num + Float + Stored<Self> + std::ops::AddAssign {
    /// Sixteen of them.
    type Lanes<S: Simd>: Lanes<Self>;
}

impl Real for f32 {
    type Lanes<S: Simd> = S::F32;
}

impl Real for f64 {
    type Lanes<S: Simd> = Array<f64, S>;
}

/// Runs `$body` with `$A` standing for the type in which values of precision `$dtype` are computed.
macro_rules! in_real {
    ($dtype:expr, $A:ident => $body:expr) => {
        if $dtype == $crate::DType::F64 {
            type $A = f64;
            $body
        } else {
            type $A = f32;
            $body
        }
    };
}

/// As [`in_real`], with I64 for integers and truth values.
macro_rules! in_num {
    ($dtype:expr, $A:ident => $body:expr) => {
        if $dtype.is_float() {
            $crate::num::in_real!($dtype, $A => $body)
        } else {
            type $A = i64;
            $body
        }
    };
}

/// Runs `$body` with `$B` standing for `$dtype`, where that is a float of 16 bits; else there is none.
macro_rules! in_half {
    ($dtype:expr, $B:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F16 => {
                type $B = half::f16;
                $body
            }
            $crate::DType::BF16 => {
                type $B = half::bf16;
                $body
            }
            _ => None,
        }
    };
}

pub(crate) use {in_half, in_num, in_real};

macro_rules! num {
    ($type:ident, $tag:ident, $zero:expr, $one:expr, $least:expr, $greatest:expr, $add:expr, $mul:expr, $abs:expr, $fold:ident) => {
        impl Num for $type {
            const DTYPE: DType = DType::$tag;
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const LEAST: Self = $least;
            const GREATEST: Self = $greatest;

            fn storage(values: Vec<Self>) -> Storage {
                values.into()
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $add(self, other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $mul(self, other)
            }

            #[inline(always)]
            fn magnitude(self) -> Self {
                $abs(self)
            }

            #[inline(always)]
            fn fold<S: Simd, F: Fold<Self>>(block: &[Self]) -> Self {
                $fold::<S, Self, F>(block)
            }
        }
    };
}

num!(
    f32,
    F32,
    0.0,
    1.0,
    f32::NEG_INFINITY,
    f32::INFINITY,
    |a, b| a + b,
    |a: f32, b| a * b,
    f32::abs,
    fold_in_registers
);
num!(
    f64,
    F64,
    0.0,
    1.0,
    f64::NEG_INFINITY,
    f64::INFINITY,
    |a, b| a + b,
    |a: f64, b| a * b,
    f64::abs,
    fold_in_registers
);
num!(i64, I64, 0, 1, i64::MIN, i64::MAX, i64::wrapping_add, i64::wrapping_mul, i64::wrapping_abs, fold_block);
