//! Arc tangents, as the other functions of F32 without branches, tables or calls.

use super::single::poly;
use crate::simd::Simd;
use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// What π is more than in F32.
const PI_LOW: f32 = -8.742_278e-8;
/// Tangent of π / 8: beyond it angles are taken from π / 4.
const EIGHTH: f32 = 0.414_213_57;
/// `(atan(t) / t - 1) / t²` for `|t| <= tan(π / 8)`; the fit's relative error is 2^-30.
const POLYNOMIAL: [f32; 5] = [-0.333_333_16, 0.199_984_9, -0.142_438_38, 0.105_959_155, -0.060_832_236];

/// Angle of the point `(x, y)` to 2.5 ulp, with the special values of C's `atan2`.
#[inline(always)]
pub fn atan2<S: Simd>(y: f32, x: f32) -> f32 {
    let (height, width) = (y.abs(), x.abs());
    let steep = height > width;
    let (small, large) = if steep { (width, height) } else { (height, width) };
    let tangent = if large == 0.0 { 0.0 } else { small / large };
    let tangent = if small == large && large > 0.0 { 1.0 } else { tangent };
    let (base, low) = if tangent > EIGHTH { (FRAC_PI_4, PI_LOW / 4.0) } else { (0.0, 0.0) };
    let t = if tangent > EIGHTH { (tangent - 1.0) / (tangent + 1.0) } else { tangent };
    let angle = base + (S::mul_add(t * t * t, poly::<S, 5>(t * t, POLYNOMIAL), low) + t);
    let angle = if steep { FRAC_PI_2 - (angle - PI_LOW / 2.0) } else { angle };
    let angle = if x.is_sign_negative() { PI - (angle - PI_LOW) } else { angle };
    let angle = if x.is_nan() | y.is_nan() { x + y } else { angle };
    angle.copysign(y)
}
