//! The 16-bit formats to and from F32, in whole vectors: by instruction where there is one, else by bit arithmetic.

use crate::simd::{Kernel, Simd};
use half::{bf16, f16};

/// Widens F16 to F32, exactly.
pub(crate) struct WidenF16<'a>(pub &'a [f16], pub &'a mut [f32]);

/// Rounds F32 to F16, to nearest even.
pub(crate) struct NarrowF16<'a>(pub &'a [f32], pub &'a mut [f16]);

/// Rounds F32 to BF16, to nearest even.
pub(crate) struct NarrowBF16<'a>(pub &'a [f32], pub &'a mut [bf16]);

impl Kernel for WidenF16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self(src, dst) = self;
        let done = S::widen_f16(src, dst);
        for (d, s) in dst[done..].iter_mut().zip(&src[done..]) {
            *d = f16_to_f32(s.to_bits());
        }
    }
}

impl Kernel for NarrowF16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self(src, dst) = self;
        let done = S::narrow_f16(src, dst);
        for (d, s) in dst[done..].iter_mut().zip(&src[done..]) {
            *d = f16::from_bits(f32_to_f16(*s));
        }
    }
}

impl Kernel for NarrowBF16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self(src, dst) = self;
        let done = S::narrow_bf16(src, dst);
        for (d, s) in dst[done..].iter_mut().zip(&src[done..]) {
            *d = bf16::from_bits(f32_to_bf16(*s));
        }
    }
}

#[inline(always)]
pub(super) fn f16_to_f32(half: u16) -> f32 {
    /// Difference of the exponent biases, as a factor.
    const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude = u32::from(half & 0x7fff) << 13;
    let finite = (f32::from_bits(magnitude) * REBIAS).to_bits();
    let quiet = if magnitude > 0x0f80_0000 { 0x0040_0000 } else { 0 };
    let bits = if magnitude >= 0x0f80_0000 { magnitude | 0x7f80_0000 | quiet } else { finite };
    f32::from_bits(bits | u32::from(half & 0x8000) << 16)
}

#[inline(always)]
pub(super) fn f32_to_f16(value: f32) -> u16 {
    const LEAST_NORMAL: u32 = (127 - 14) << 23;
    const INFINITY: u32 = (127 + 16) << 23;
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let tie_to_even = (magnitude >> 13) & 1;
    let normal = (magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + tie_to_even)) >> 13;
    // The sum with 0.5 has the spacing of F16's subnormals, so the addition itself rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < LEAST_NORMAL { subnormal } else { normal };
    let nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    let special = if magnitude > 0x7f80_0000 { nan } else { 0x7c00 };
    let half = if magnitude >= INFINITY { special } else { finite };
    (half | (bits >> 16) & 0x8000) as u16
}

#[inline(always)]
pub(super) fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

#[inline(always)]
pub(super) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet_nan = (bits >> 16) | 0x0040;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet_nan } else { rounded }) as u16
}
