//! Sixteen F32 in the registers of AVX2 and AVX-512.

use super::{LANES, Lanes};
use crate::math::{EXP_LIMITS, EXP_POLYNOMIAL, LN_2_HIGH, LN_2_LOW, ROUNDER};
use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;
use std::ops::{Add, Mul, Sub};

/// Two registers of AVX2.
#[derive(Clone, Copy)]
pub struct Wide256(__m256, __m256);

/// One register of AVX-512.
#[derive(Clone, Copy)]
pub struct Wide512(__m512);

// SAFETY of all intrinsics below: code with one of these types runs inside `dispatch_at` of a level that has the
// instructions; loads and stores go through references to sixteen elements.
macro_rules! operators {
    ($($trait:ident $name:ident $half:ident $whole:ident;)*) => {$(
        impl $trait for Wide256 {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                // SAFETY: see above.
                unsafe { Self($half(self.0, other.0), $half(self.1, other.1)) }
            }
        }

        impl $trait for Wide512 {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                // SAFETY: see above.
                unsafe { Self($whole(self.0, other.0)) }
            }
        }
    )*};
}
operators! {
    Add add _mm256_add_ps _mm512_add_ps;
    Sub sub _mm256_sub_ps _mm512_sub_ps;
    Mul mul _mm256_mul_ps _mm512_mul_ps;
}

impl Lanes<f32> for Wide512 {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_set1_ps(value)) }
    }

    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_loadu_ps(from.as_ptr())) }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn without(self, bits: u16) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_maskz_mov_ps(!bits, self.0)) }
    }

    #[inline(always)]
    fn dead(self) -> u16 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, _mm512_setzero_ps()) }
    }

    #[inline(always)]
    fn load_part(from: &[f32], rest: f32) -> Self {
        // SAFETY: see above; lanes that the mask leaves out are not read.
        unsafe { Self(_mm512_mask_loadu_ps(_mm512_set1_ps(rest), first_16(from.len()), from.as_ptr())) }
    }

    #[inline(always)]
    fn store_part(self, to: &mut [f32]) {
        // SAFETY: see above; lanes that the mask leaves out are not written.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), first_16(to.len()), self.0) }
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_fmadd_ps(self.0, b.0, c.0)) }
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_max_ps(other.0, self.0)) }
    }

    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        // SAFETY: see above. Where one is NaN the maximum is its second operand.
        unsafe {
            let (nan, most) = (_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.0, other.0), _mm512_max_ps(other.0, self.0));
            Self(_mm512_mask_mov_ps(most, nan, other.0))
        }
    }

    #[inline(always)]
    fn least(self, other: Self) -> Self {
        // SAFETY: see above. Where one is NaN the minimum is its second operand.
        unsafe {
            let (nan, least) = (_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.0, other.0), _mm512_min_ps(other.0, self.0));
            Self(_mm512_mask_mov_ps(least, nan, other.0))
        }
    }

    #[inline(always)]
    fn outdone(self, other: Self, marks: [Self; 2]) -> [Self; 2] {
        // SAFETY: see above.
        unsafe {
            let greater = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(other.0, self.0);
            let either = greater | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.0, other.0);
            [(self, other), (marks[0], marks[1])].map(|(a, b)| Self(_mm512_mask_mov_ps(a.0, either, b.0)))
        }
    }

    #[inline(always)]
    fn evens(self, next: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            Self(_mm512_permutex2var_ps(self.0, places, next.0))
        }
    }

    #[inline(always)]
    fn swapped(self, width: usize) -> Self {
        // SAFETY: see above.
        unsafe {
            Self(match width {
                8 => _mm512_shuffle_f32x4::<0b01_00_11_10>(self.0, self.0),
                4 => _mm512_shuffle_f32x4::<0b10_11_00_01>(self.0, self.0),
                2 => _mm512_permute_ps::<0b01_00_11_10>(self.0),
                _ => _mm512_permute_ps::<0b10_11_00_01>(self.0),
            })
        }
    }

    /// As [`crate::math`]'s, bit for bit; the power of two is one instruction that rounds subnormals once.
    #[inline(always)]
    fn exp(self) -> Self {
        // SAFETY: see above. A limit as the first operand lets NaN pass.
        unsafe { Self(_mm512_min_ps(_mm512_set1_ps(EXP_LIMITS[1]), self.0)).exp_below() }
    }

    #[inline(always)]
    fn exp_below(self) -> Self {
        // SAFETY: see above. A limit as the first operand lets NaN pass.
        unsafe {
            let x = _mm512_max_ps(_mm512_set1_ps(EXP_LIMITS[0]), self.0);
            let shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(LOG2_E), _mm512_set1_ps(ROUNDER));
            let n = _mm512_sub_ps(shifted, _mm512_set1_ps(ROUNDER));
            let rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_HIGH), x);
            let rest = Self(_mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_LOW), rest));
            Self(_mm512_scalef_ps(power(rest).0, n))
        }
    }
}

impl Lanes<f32> for Wide256 {
    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }

    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from[8..].as_ptr())) }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        // SAFETY: see above.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), self.0);
            _mm256_storeu_ps(to[8..].as_mut_ptr(), self.1);
        }
    }

    #[inline(always)]
    fn dead(self) -> u16 {
        // SAFETY: see above.
        let bits = |half| unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(half, _mm256_setzero_ps())) };
        (bits(self.0) | bits(self.1) << 8) as u16
    }

    #[inline(always)]
    fn load_part(from: &[f32], rest: f32) -> Self {
        // SAFETY: see above; lanes that the masks leave out are not read.
        unsafe {
            let load = |mask: __m256i, from| {
                _mm256_blendv_ps(_mm256_set1_ps(rest), _mm256_maskload_ps(from, mask), _mm256_castsi256_ps(mask))
            };
            let [low, high] = first_8(from.len());
            Self(load(low, from.as_ptr()), load(high, from.as_ptr().wrapping_add(8)))
        }
    }

    #[inline(always)]
    fn store_part(self, to: &mut [f32]) {
        // SAFETY: see above; lanes that the masks leave out are not written.
        unsafe {
            let [low, high] = first_8(to.len());
            _mm256_maskstore_ps(to.as_mut_ptr(), low, self.0);
            _mm256_maskstore_ps(to.as_mut_ptr().wrapping_add(8), high, self.1);
        }
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_fmadd_ps(self.0, b.0, c.0), _mm256_fmadd_ps(self.1, b.1, c.1)) }
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_max_ps(other.0, self.0), _mm256_max_ps(other.1, self.1)) }
    }

    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        // SAFETY: see above. Where one is NaN the maximum is its second operand.
        let each = |a, b| unsafe { _mm256_blendv_ps(_mm256_max_ps(b, a), b, _mm256_cmp_ps::<_CMP_UNORD_Q>(b, b)) };
        Self(each(self.0, other.0), each(self.1, other.1))
    }

    #[inline(always)]
    fn least(self, other: Self) -> Self {
        // SAFETY: see above. Where one is NaN the minimum is its second operand.
        let each = |a, b| unsafe { _mm256_blendv_ps(_mm256_min_ps(b, a), b, _mm256_cmp_ps::<_CMP_UNORD_Q>(b, b)) };
        Self(each(self.0, other.0), each(self.1, other.1))
    }

    #[inline(always)]
    fn outdone(self, other: Self, marks: [Self; 2]) -> [Self; 2] {
        // SAFETY: see above.
        unsafe {
            let low = outdone_256(other.0, self.0);
            let high = outdone_256(other.1, self.1);
            [(self, other), (marks[0], marks[1])]
                .map(|(a, b)| Self(_mm256_blendv_ps(a.0, b.0, low), _mm256_blendv_ps(a.1, b.1, high)))
        }
    }

    #[inline(always)]
    fn evens(self, next: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(evens_256(self.0, self.1), evens_256(next.0, next.1)) }
    }

    #[inline(always)]
    fn swapped(self, width: usize) -> Self {
        // SAFETY: see above.
        unsafe {
            match width {
                8 => Self(self.1, self.0),
                4 => Self(swapped_256::<4>(self.0), swapped_256::<4>(self.1)),
                2 => Self(swapped_256::<2>(self.0), swapped_256::<2>(self.1)),
                _ => Self(swapped_256::<1>(self.0), swapped_256::<1>(self.1)),
            }
        }
    }

    #[inline(always)]
    fn exp(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (reduce_256(self.0), reduce_256(self.1));
            let power = power(Self(low.1, high.1));
            Self(scale_256(power.0, low.0), scale_256(power.1, high.0))
        }
    }
}

/// Where `other` is greater or NaN.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn outdone_256(other: __m256, best: __m256) -> __m256 {
    _mm256_or_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(other, best), _mm256_cmp_ps::<_CMP_UNORD_Q>(other, other))
}

/// The mask of the first lanes; there are sixteen.
#[inline(always)]
fn first_16(count: usize) -> __mmask16 {
    assert!(count <= LANES);
    ((1_u32 << count) - 1) as __mmask16
}

/// The masks of the first lanes of both halves; there are sixteen in all.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn first_8(count: usize) -> [__m256i; 2] {
    assert!(count <= LANES);
    let (count, lanes) = (_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    let high = _mm256_add_epi32(lanes, _mm256_set1_epi32(8));
    [_mm256_cmpgt_epi32(count, lanes), _mm256_cmpgt_epi32(count, high)]
}

/// `e^r` for `|r| <= ln(2) / 2`.
#[inline(always)]
fn power<L: Lanes<f32>>(r: L) -> L {
    let [rest @ .., last] = EXP_POLYNOMIAL;
    let q = rest.into_iter().rev().fold(L::splat(last), |sum, c| sum.mul_add(r, L::splat(c)));
    q.mul_add(r, L::splat(1.0)).mul_add(r, L::splat(1.0))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn evens_256(a: __m256, b: __m256) -> __m256 {
    let pairs = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
    _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(pairs))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn swapped_256<const WIDTH: usize>(a: __m256) -> __m256 {
    match WIDTH {
        4 => _mm256_permute2f128_ps::<1>(a, a),
        2 => _mm256_permute_ps::<0b01_00_11_10>(a),
        _ => _mm256_permute_ps::<0b10_11_00_01>(a),
    }
}

/// Nearest integer `n` to `x / ln 2`, and `x - n ln 2`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn reduce_256(x: __m256) -> (__m256i, __m256) {
    let x = _mm256_max_ps(_mm256_set1_ps(EXP_LIMITS[0]), x);
    let x = _mm256_min_ps(_mm256_set1_ps(EXP_LIMITS[1]), x);
    let rounder = _mm256_set1_ps(ROUNDER);
    let shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(LOG2_E), rounder);
    let n = _mm256_sub_ps(shifted, rounder);
    let rest = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2_HIGH), x);
    let integer = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(rounder));
    (integer, _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2_LOW), rest))
}

/// `x * 2^n` in two factors, so that neither overflows and a subnormal result is rounded once.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn scale_256(x: __m256, n: __m256i) -> __m256 {
    let power = |n| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))));
    let half = _mm256_srai_epi32::<1>(n);
    _mm256_mul_ps(_mm256_mul_ps(x, power(half)), power(_mm256_sub_epi32(n, half)))
}
