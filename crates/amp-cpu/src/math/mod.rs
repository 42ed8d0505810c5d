//! The functions of one real variable that kernels are made of, in F32 and F64.

mod arc;
mod division;
mod erf;
mod single;
#[cfg(test)]
mod tests;

use crate::convert::Compute;
use crate::simd::Simd;
pub(crate) use division::{divided, divided_integers, divided_near};
#[cfg(target_arch = "x86_64")]
pub(crate) use single::{EXP_LIMITS, EXP_POLYNOMIAL, LN_2_HIGH, LN_2_LOW, ROUNDER};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Largest magnitude for which the vectorised `sin` and `cos` of F32 reduce their argument correctly.
pub(crate) const TRIGONOMETRIC_LIMIT: f32 = 1e9;

/// A floating-point type that kernels compute in; `S` is the level that the caller is compiled for.
pub(crate) trait Float:
    Compute + Neg<Output = Self> + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    fn of(v: f64) -> Self;
    fn wide(self) -> f64;
    fn mul_add<S: Simd>(self, b: Self, c: Self) -> Self;
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round(self) -> Self;
    fn trunc(self) -> Self;
    fn exp<S: Simd>(self) -> Self;
    fn expm1<S: Simd>(self) -> Self;
    fn ln<S: Simd>(self) -> Self;
    fn ln_1p<S: Simd>(self) -> Self;
    fn log2<S: Simd>(self) -> Self;
    fn sin<S: Simd>(self) -> Self;
    fn cos<S: Simd>(self) -> Self;
    fn tanh<S: Simd>(self) -> Self;
    fn erf<S: Simd>(self) -> Self;
    fn sigmoid<S: Simd>(self) -> Self;
    /// `ln(1 + e^x)`
    fn softplus<S: Simd>(self) -> Self;
    /// Distribution function and density of the standard normal distribution.
    fn normal<S: Simd>(self) -> (Self, Self);
    fn pow<S: Simd>(self, p: Self) -> Self;
    fn atan2<S: Simd>(self, x: Self) -> Self;
}

unsafe extern "C" {
    // SAFETY: functions of the C mathematics library, which the standard library links; they take any argument.
    #[link_name = "erf"]
    safe fn libm_erf(x: f64) -> f64;
    #[link_name = "erfc"]
    safe fn libm_erfc(x: f64) -> f64;
}

macro_rules! methods {
    ($($name:ident $(<$s:ident>)? ($x:ident $(, $arg:ident)*) = $body:expr;)*) => {
        $(#[inline(always)]
        fn $name $(<$s: Simd>)? (self $(, $arg: Self)*) -> Self {
            let $x = self;
            $body
        })*
    };
}

impl Float for f64 {
    #[inline(always)]
    fn of(v: f64) -> Self {
        v
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn normal<S: Simd>(self) -> (Self, Self) {
        let density = 0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI * f64::exp(-0.5 * self * self);
        (0.5 * libm_erfc(-FRAC_1_SQRT_2 * self), density)
    }

    methods! {
        mul_add<S>(a, b, c) = S::mul_add_f64(a, b, c);
        abs(x) = f64::abs(x);
        sqrt(x) = f64::sqrt(x);
        floor(x) = f64::floor(x);
        ceil(x) = f64::ceil(x);
        round(x) = x.round_ties_even();
        trunc(x) = f64::trunc(x);
        exp<S>(x) = f64::exp(x);
        expm1<S>(x) = x.exp_m1();
        ln<S>(x) = f64::ln(x);
        ln_1p<S>(x) = f64::ln_1p(x);
        log2<S>(x) = f64::log2(x);
        sin<S>(x) = f64::sin(x);
        cos<S>(x) = f64::cos(x);
        tanh<S>(x) = f64::tanh(x);
        erf<S>(x) = libm_erf(x);
        sigmoid<S>(x) = {
            let z = f64::exp(-f64::abs(x));
            if x < 0.0 { z / (1.0 + z) } else { 1.0 / (1.0 + z) }
        };
        softplus<S>(x) = x.max(0.0) + f64::ln_1p(f64::exp(-f64::abs(x)));
        pow<S>(x, p) = x.powf(p);
        atan2<S>(y, x) = f64::atan2(y, x);
    }
}

impl Float for f32 {
    #[inline(always)]
    fn of(v: f64) -> Self {
        v as f32
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self.into()
    }

    methods! {
        mul_add<S>(a, b, c) = S::mul_add(a, b, c);
        abs(x) = f32::abs(x);
        sqrt(x) = f32::sqrt(x);
        floor(x) = f32::floor(x);
        ceil(x) = f32::ceil(x);
        round(x) = x.round_ties_even();
        trunc(x) = f32::trunc(x);
        exp<S>(x) = single::exp::<S>(x);
        expm1<S>(x) = single::expm1::<S>(x);
        ln<S>(x) = single::ln::<S>(x);
        ln_1p<S>(x) = single::ln_1p::<S>(x);
        log2<S>(x) = single::log2::<S>(x);
        sin<S>(x) = single::sin::<S>(x);
        cos<S>(x) = single::cos::<S>(x);
        tanh<S>(x) = single::tanh::<S>(x);
        erf<S>(x) = erf::erf::<S>(x);
        sigmoid<S>(x) = single::sigmoid::<S>(x);
        softplus<S>(x) = single::softplus::<S>(x);
        pow<S>(x, p) = single::pow::<S>(x, p);
        atan2<S>(y, x) = arc::atan2::<S>(y, x);
    }

    #[inline(always)]
    fn normal<S: Simd>(self) -> (Self, Self) {
        erf::normal::<S>(self)
    }
}
