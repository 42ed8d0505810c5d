//! F32 functions as straight-line code that LLVM vectorises: no branches, no tables, no calls.
//!
//! Coefficients are minimax fits (Remez exchange) on the interval named next to them. The largest error of each
//! function, in units in the last place of the F32 result, is stated and tested; NaN in is NaN out unless said.

use crate::simd::Simd;
use std::f32::consts::{LN_2, LOG2_E};

/// Adding and subtracting it rounds to an integer, which then stands in the low bits of the sum.
pub(crate) const ROUNDER: f32 = 12_582_912.0;
const ROUNDER_F64: f64 = 6_755_399_441_055_744.0;

/// `ln 2` with so few bits that small multiples are exact, and the rest.
pub(crate) const LN_2_HIGH: f32 = 0.693_359_4;
pub(crate) const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Beyond these `e^x` is 0 or infinite.
pub(crate) const EXP_LIMITS: [f32; 2] = [-105.0, 89.0];
/// `(e^r - 1 - r) / r^2` for `|r| <= ln(2) / 2`.
pub(crate) const EXP_POLYNOMIAL: [f32; 5] = [0.5, 0.166_665_42, 0.041_666_28, 0.008_366_71, 0.001_394_667];

#[inline(always)]
pub(super) fn poly<S: Simd, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = S::mul_add(sum, x, coefficients[i]);
    }
    sum
}

#[inline(always)]
fn poly_f64<S: Simd, const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = S::mul_add_f64(sum, x, coefficients[i]);
    }
    sum
}

/// `x` limited to a range; NaN stays.
#[inline(always)]
pub(super) fn limit(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `2^n` for `n` in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

/// Nearest integer `n` to `x / ln 2`, and `x - n ln 2`.
#[inline(always)]
fn reduce<S: Simd>(x: f32) -> (i32, f32) {
    let shifted = S::mul_add(x, LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    let rest = S::mul_add(n, -LN_2_LOW, S::mul_add(n, -LN_2_HIGH, x));
    ((shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32), rest)
}

/// `e^r - 1` for `|r| <= ln(2) / 2`; the fit's relative error is 2^-26.
#[inline(always)]
fn expm1_reduced<S: Simd>(r: f32) -> f32 {
    let q = poly::<S, 5>(r, EXP_POLYNOMIAL);
    S::mul_add(r * r, q, r)
}

/// `e^r` for `|r| <= ln(2) / 2`, in fewer steps than from [`expm1_reduced`].
#[inline(always)]
fn exp_reduced<S: Simd>(r: f32) -> f32 {
    S::mul_add(S::mul_add(poly::<S, 5>(r, EXP_POLYNOMIAL), r, 1.0), r, 1.0)
}

/// `e^x` to 1.5 ulp.
#[inline(always)]
pub fn exp<S: Simd>(x: f32) -> f32 {
    let (n, r) = reduce::<S>(limit(x, EXP_LIMITS[0], EXP_LIMITS[1]));
    let half = n >> 1;
    // Two factors, so that neither overflows and a subnormal result is rounded once.
    exp_reduced::<S>(r) * power_of_two(half) * power_of_two(n - half)
}

/// `e^x - 1` to 2 ulp.
#[inline(always)]
pub fn expm1<S: Simd>(x: f32) -> f32 {
    let (n, r) = reduce::<S>(limit(x, -18.0, 89.0));
    let p = expm1_reduced::<S>(r);
    // Half the power, because 2^128 is not finite.
    let half_power = power_of_two(n - 1);
    let scaled = 2.0 * S::mul_add(half_power, p, half_power - 0.5);
    if n == 0 { p } else { scaled }
}

/// Exponent `e` and `m - 1` of a positive finite `x = m * 2^e`, with `m` between `sqrt(1/2)` and `sqrt(2)`.
#[inline(always)]
fn split_exponent(x: f32) -> (f32, f32) {
    const SQRT_HALF: i32 = 0x3f35_04f3;
    let subnormal = x < f32::MIN_POSITIVE;
    let bits = if subnormal { x * power_of_two(23) } else { x }.to_bits() as i32;
    let above = bits.wrapping_sub(SQRT_HALF);
    let m = f32::from_bits(((above & 0x007f_ffff) + SQRT_HALF) as u32);
    let e = (above >> 23) as f32;
    (if subnormal { e - 23.0 } else { e }, m - 1.0)
}

/// `ln(1 + f) - f` for `f` between `sqrt(1/2) - 1` and `sqrt(2) - 1`; the fit's error is 2^-27 of `ln(1 + f)`.
#[inline(always)]
fn ln_1p_rest<S: Simd>(f: f32) -> f32 {
    let p = poly::<S, 8>(
        f,
        [
            0.333_333_16,
            -0.250_008_1,
            0.200_022_86,
            -0.166_245_54,
            0.141_811_9,
            -0.131_287_53,
            0.128_816_52,
            -0.078_596_205,
        ],
    );
    let square = f * f;
    S::mul_add(square * f, p, -0.5 * square)
}

/// The value of a logarithm where `x` has no exponent: 0, negative, infinite or NaN.
#[inline(always)]
fn ln_special(x: f32, regular: f32) -> f32 {
    let finite = if x == f32::INFINITY { x } else { regular };
    let positive = if x == 0.0 { f32::NEG_INFINITY } else { finite };
    if x >= 0.0 { positive } else { f32::NAN }
}

/// `ln(x)` to 1.5 ulp.
#[inline(always)]
pub fn ln<S: Simd>(x: f32) -> f32 {
    let (e, f) = split_exponent(x);
    let rest = S::mul_add(e, LN_2_LOW, ln_1p_rest::<S>(f));
    ln_special(x, S::mul_add(e, LN_2_HIGH, f + rest))
}

/// `log2(x)` to 2 ulp, exact for powers of two.
#[inline(always)]
pub fn log2<S: Simd>(x: f32) -> f32 {
    let (e, f) = split_exponent(x);
    let rest = ln_1p_rest::<S>(f);
    let fraction = S::mul_add(f + rest, LOG2_E - 1.0, rest);
    ln_special(x, e + (f + fraction))
}

/// `ln(1 + x)` to 2 ulp.
#[inline(always)]
pub fn ln_1p<S: Simd>(x: f32) -> f32 {
    let u = 1.0 + x;
    // What the rounding of `1 + x` lost, as a change of the logarithm.
    let lost = if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let (e, f) = split_exponent(u);
    let rest = S::mul_add(e, LN_2_LOW, ln_1p_rest::<S>(f) + lost / u);
    let regular = ln_special(u, S::mul_add(e, LN_2_HIGH, f + rest));
    if x == 0.0 { x } else { regular }
}

/// `tanh(x)` to 3 ulp.
#[inline(always)]
pub fn tanh<S: Simd>(x: f32) -> f32 {
    let t = expm1::<S>(2.0 * limit(x.abs(), 0.0, 10.0));
    (t / (t + 2.0)).copysign(x)
}

/// `1 / (1 + e^-x)` to 3 ulp.
#[inline(always)]
pub fn sigmoid<S: Simd>(x: f32) -> f32 {
    let z = exp::<S>(-x.abs());
    let r = 1.0 / (1.0 + z);
    if x < 0.0 { z * r } else { r }
}

/// Quadrant of `x` and the sine and cosine of the angle that is left.
#[inline(always)]
fn sin_cos_reduced<S: Simd>(x: f32) -> (u32, f32, f32) {
    use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};
    /// `pi / 2` minus its F64 value.
    const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;
    let wide = f64::from(x);
    let shifted = S::mul_add_f64(wide, FRAC_2_PI, ROUNDER_F64);
    let n = shifted - ROUNDER_F64;
    let r = quarter_rest::<S>(wide, n, FRAC_PI_2, FRAC_PI_2_LOW) as f32;
    let z = r * r;
    let sin = S::mul_add(r * z, poly::<S, 3>(z, [-0.166_666_55, 0.008_332_173, -0.000_195_166_56]), r);
    let cos = S::mul_add(z * z, poly::<S, 3>(z, [0.041_666_646, -0.001_388_736_2, 2.443_773e-5]), 1.0 - 0.5 * z);
    (shifted.to_bits() as u32, sin, cos)
}

/// `x - n (high + low)`; without a fused product `high` is split so that its products with 30-bit integers are exact.
#[inline(always)]
fn quarter_rest<S: Simd>(x: f64, n: f64, high: f64, low: f64) -> f64 {
    let first = f64::from_bits(high.to_bits() & 0xffff_ffff_c000_0000);
    let second = high - first;
    S::mul_add_f64(n, -low, S::mul_add_f64(n, -second, S::mul_add_f64(n, -first, x)))
}

/// `sin(x)` to 1.5 ulp up to [`super::TRIGONOMETRIC_LIMIT`].
#[inline(always)]
pub fn sin<S: Simd>(x: f32) -> f32 {
    let (quadrant, sin, cos) = sin_cos_reduced::<S>(x);
    let value = if quadrant & 1 == 0 { sin } else { cos };
    f32::from_bits(value.to_bits() ^ ((quadrant & 2) << 30))
}

/// `cos(x)` to 1.5 ulp up to [`super::TRIGONOMETRIC_LIMIT`].
#[inline(always)]
pub fn cos<S: Simd>(x: f32) -> f32 {
    let (quadrant, sin, cos) = sin_cos_reduced::<S>(x);
    let value = if quadrant & 1 == 0 { cos } else { sin };
    f32::from_bits(value.to_bits() ^ ((quadrant.wrapping_add(1) & 2) << 30))
}

/// `log2` of a positive finite F32 in F64, with a relative error of 2^-42.
#[inline(always)]
fn log2_wide<S: Simd>(x: f64) -> f64 {
    const SQRT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
    let above = (x.to_bits() as i64).wrapping_sub(SQRT_HALF);
    let m = f64::from_bits(((above & 0x000f_ffff_ffff_ffff) + SQRT_HALF) as u64);
    let e = ((above >> 52) as i32) as f64;
    let s = (m - 1.0) / (m + 1.0);
    let p = poly_f64::<S, 6>(
        s * s,
        [
            2.885_390_081_777_844_6,
            0.961_796_694_123_719,
            0.577_077_939_125_198_3,
            0.412_209_600_062_747_3,
            0.319_890_678_637_961_2,
            0.283_124_679_847_825_9,
        ],
    );
    S::mul_add_f64(s, p, e)
}

/// `2^x` in F64 for `|x| <= 200`, with a relative error of 2^-34.
#[inline(always)]
fn exp2_wide<S: Simd>(x: f64) -> f64 {
    let shifted = x + ROUNDER_F64;
    let n = shifted.to_bits().wrapping_sub(ROUNDER_F64.to_bits());
    let p = poly_f64::<S, 8>(
        x - (shifted - ROUNDER_F64),
        [
            0.999_999_999_961_072_1,
            0.693_147_180_731_151_3,
            0.240_226_512_041_603_83,
            0.055_504_103_472_774_18,
            0.009_618_026_441_826_21,
            0.001_333_392_548_195_453_7,
            0.000_154_695_532_154_732_7,
            0.000_015_201_718_427_856_257,
        ],
    );
    p * f64::from_bits(n.wrapping_add(1023) << 52)
}

/// `x^p` to 0.6 ulp, with the special values of C's `pow`.
#[inline(always)]
pub fn pow<S: Simd>(x: f32, p: f32) -> f32 {
    let base = f64::from(x.abs());
    let log = log2_wide::<S>(base);
    let log = if base == 0.0 { f64::NEG_INFINITY } else { log };
    let log = if base < f64::INFINITY { log } else { base };
    let exponent = f64::from(p) * log;
    let exponent = if exponent < -200.0 { -200.0 } else { exponent };
    let exponent = if exponent > 200.0 { 200.0 } else { exponent };
    let magnitude = exp2_wide::<S>(exponent) as f32;
    // Above 2^25 every F32 is an even integer.
    let whole = limit(p, -33_554_432.0, 33_554_432.0);
    let shifted = f64::from(whole) + ROUNDER_F64;
    let is_integer = (shifted - ROUNDER_F64) == f64::from(whole);
    let is_odd = is_integer & (shifted.to_bits() & 1 == 1);
    let sign = if is_odd { x.to_bits() & 0x8000_0000 } else { 0 };
    let signed = f32::from_bits(magnitude.to_bits() ^ sign);
    let undefined = (x < 0.0) & !is_integer & (x != f32::NEG_INFINITY);
    let regular = if undefined { f32::NAN } else { signed };
    let minus_one_to_infinity = (x == -1.0) & (p.abs() == f32::INFINITY);
    if (p == 0.0) | (x == 1.0) | minus_one_to_infinity { 1.0 } else { regular }
}

/// `softplus(x) = ln(1 + e^x)` to 4 ulp.
#[inline(always)]
pub fn softplus<S: Simd>(x: f32) -> f32 {
    let positive = if x > 0.0 { x } else { 0.0 };
    positive + ln_1p::<S>(exp::<S>(-x.abs()))
}

const _: () = assert!(LN_2 - LN_2_HIGH - LN_2_LOW < 1e-7);
