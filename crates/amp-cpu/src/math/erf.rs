//! The error function and the normal distribution in F32, as [`super::single`] has the other functions.

use super::single::{LN_2_HIGH, LN_2_LOW, ROUNDER, limit, poly};
use crate::simd::{Level, Simd};
use std::f32::consts::LOG2_E;

/// The polynomial of `exp` by fewer terms, where more than the last place may be wrong; the fit's relative error is 2^-23.
const EXP_SHORT: [f32; 4] = [0.499_992_3, 0.166_671_14, 0.041_890_156, 0.008_312_52];

/// `e^(x^2) erfc(x)` for `x` in 0..=10.3, a quotient without cancellation; the fit's relative error is 2^-27.
const ERFCX: Quotient = Quotient {
    above: [1.0, 1.240_095_9, 0.733_371_9, 0.230_062_32, 0.032_973_852],
    below: [1.0, 2.368_475_6, 2.405_900_8, 1.328_668_8, 0.407_800_45, 0.058_443_96],
};

/// The same of `x / sqrt(2)`, and half of it.
const HALF_ERFCX: Quotient = Quotient {
    above: [0.5, 0.438_440_08, 0.183_342_98, 0.040_669_657, 0.004_121_731_5],
    below: [1.0, 1.674_765_2, 1.202_950_4, 0.469_755_35, 0.101_950_12, 0.010_331_529],
};

/// A quotient of polynomials: with a second division gelu took 1.3 times as long on a Xeon, where one of 16 numbers takes 16
/// cycles.
struct Quotient {
    above: [f32; 5],
    below: [f32; 6],
}

impl Quotient {
    /// The quotient times a factor.
    const fn times(mut self, factor: f32) -> Self {
        let mut i = 0;
        while i < self.above.len() {
            self.above[i] *= factor;
            i += 1;
        }
        self
    }

    /// By pairs of terms: without fused products, every rounding less counts.
    #[inline(always)]
    fn at<S: Simd>(&self, x: f32) -> f32 {
        let (a, b, square) = (self.above, self.below, x * x);
        let pair = |low, high| S::mul_add(high, x, low);
        let above = S::mul_add(S::mul_add(a[4], square, pair(a[2], a[3])), square, pair(a[0], a[1]));
        let below = S::mul_add(S::mul_add(pair(b[4], b[5]), square, pair(b[2], b[3])), square, pair(b[0], b[1]));
        above / below
    }
}

/// `2^-64`: what [`exp_neg_square`] is multiplied by in the end, so that a subnormal result is rounded once.
const SCALE: f32 = f32::from_bits((127 - 64) << 23);

/// `2^64 e^(-factor x^2)` without the error of a rounded square, down to `e^-110`; `factor` is a power of two.
///
/// Factors stand in constants and the polynomial goes by pairs of terms, as what hangs on one result after the other is waited for:
/// gelu of F32 took a tenth longer with `exp_reduced`.
#[inline(always)]
fn exp_neg_square<S: Simd>(x: f32, factor: f32) -> f32 {
    const SHIFT: f32 = ROUNDER + 64.0;
    let (high, low) = square::<S>(x);
    let shifted = S::mul_add(x * x, -factor * LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    // `r / -factor` where `r` is what `reduce` leaves.
    let r = S::mul_add(n, LN_2_LOW / factor, S::mul_add(n, LN_2_HIGH / factor, high)) + low;
    let [c2, c3, c4, c5] = EXP_SHORT;
    let f = -factor;
    let square = r * r;
    let first = S::mul_add(r, f, 1.0);
    let second = S::mul_add(r, c3 * (f * f * f), c2 * (f * f));
    let third = S::mul_add(r, c5 * (f * f * f * f * f), c4 * (f * f * f * f));
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()));
    S::mul_add(S::mul_add(third, square, second), square, first) * power
}

/// `x^2` as the sum of two numbers.
#[inline(always)]
fn square<S: Simd>(x: f32) -> (f32, f32) {
    if const { S::LEVEL.reaches(Level::Avx2) } {
        let square = x * x;
        return (square, S::mul_add(x, x, -square));
    }
    let high = f32::from_bits(x.to_bits() & 0xffff_f000);
    (high * high, (x - high) * (x + high))
}

/// `1 - erf(x)` to 5 ulp, also where that is tiny.
#[inline(always)]
pub fn erfc<S: Simd>(x: f32) -> f32 {
    let t = limit(x.abs(), 0.0, 10.3);
    let tail = exp_neg_square::<S>(t, 1.0) * const { ERFCX.times(SCALE) }.at::<S>(t);
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// `erf(x)` to 2 ulp.
#[inline(always)]
pub fn erf<S: Simd>(x: f32) -> f32 {
    let z = x * x;
    let p = poly::<S, 7>(
        z,
        [0.128_379_17, -0.376_126_26, 0.112_836, -0.026_854_444, 0.005_189_535, -0.000_802_084_2, 0.000_078_891_22],
    );
    let near = S::mul_add(x, p, x);
    let far = (1.0 - erfc::<S>(x.abs())).copysign(x);
    if x.abs() < 1.0 { near } else { far }
}

/// Distribution function and density of the standard normal distribution, to 6 ulp, also where they are tiny.
#[inline(always)]
pub fn normal<S: Simd>(x: f32) -> (f32, f32) {
    let t = if x.abs() > 14.5 { 14.5 } else { x.abs() };
    let e = exp_neg_square::<S>(t, 0.5);
    let tail = e * const { HALF_ERFCX.times(SCALE) }.at::<S>(t);
    (if x < 0.0 { tail } else { 1.0 - tail }, e * (0.398_942_3 * SCALE))
}
