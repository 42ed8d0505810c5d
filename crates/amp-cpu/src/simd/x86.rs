//! One vector of half conversions; callers have checked the features and the length.

use half::{bf16, f16};
use std::arch::x86_64::*;

/// # Safety
/// The CPU has `avx,f16c`, and both slices hold 8 elements.
#[inline]
#[target_feature(enable = "avx,f16c")]
pub unsafe fn widen_8(src: &[f16], dst: &mut [f32]) {
    // SAFETY: both slices hold 8 elements, and `f16` is 16 bits.
    unsafe { _mm256_storeu_ps(dst.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(src.as_ptr().cast()))) }
}

/// # Safety
/// The CPU has `avx,f16c`, and both slices hold 8 elements.
#[inline]
#[target_feature(enable = "avx,f16c")]
pub unsafe fn narrow_8(src: &[f32], dst: &mut [f16]) {
    // SAFETY: both slices hold 8 elements, and `f16` is 16 bits.
    unsafe {
        let rounded = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(src.as_ptr()));
        _mm_storeu_si128(dst.as_mut_ptr().cast(), rounded);
    }
}

/// # Safety
/// The CPU has `avx512f`, and both slices hold 16 elements.
#[inline]
#[target_feature(enable = "avx512f")]
pub unsafe fn widen_16(src: &[f16], dst: &mut [f32]) {
    // SAFETY: both slices hold 16 elements, and `f16` is 16 bits.
    unsafe { _mm512_storeu_ps(dst.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(src.as_ptr().cast()))) }
}

/// # Safety
/// The CPU has `avx512f`, and both slices hold 16 elements.
#[inline]
#[target_feature(enable = "avx512f")]
pub unsafe fn narrow_16(src: &[f32], dst: &mut [f16]) {
    // SAFETY: both slices hold 16 elements, and `f16` is 16 bits.
    unsafe {
        let rounded = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(src.as_ptr()));
        _mm256_storeu_si256(dst.as_mut_ptr().cast(), rounded);
    }
}

/// Rounds to nearest even by adding, and takes the upper halves of both vectors at once: 9 instructions for 32 elements, where
/// LLVM's narrowing took 20. A NaN keeps its upper bits and is made a quiet one.
///
/// # Safety
/// The CPU has `avx512f,avx512bw`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn round_32(src: &[f32; 32], dst: &mut [bf16; 32]) {
    // SAFETY: loads and stores go through references to as many elements, and `bf16` is 16 bits.
    unsafe {
        let (low, high) = (_mm512_loadu_ps(src.as_ptr()), _mm512_loadu_ps(src[16..].as_ptr()));
        let (mut first, mut second) = (rounded(_mm512_castps_si512(low)), rounded(_mm512_castps_si512(high)));
        // One comparison for both, as there is hardly ever one.
        if _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(low, high) != 0 {
            (first, second) = (without_nan(low, first), without_nan(high, second));
        }
        let upper = _mm512_load_si512(UPPER.0.as_ptr().cast());
        _mm512_storeu_si512(dst.as_mut_ptr().cast(), _mm512_permutex2var_epi16(first, upper, second));
    }
}

/// # Safety
/// The CPU has `avx512f,avx512bw,avx512vl`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub unsafe fn some_of_16(from: &[u16], rest: u16) -> [u16; 16] {
    assert!(from.len() <= 16);
    let (mut all, first) = ([0; 16], ((1_u32 << from.len()) - 1) as __mmask16);
    // SAFETY: elements that the mask leaves out are not read, and `all` has sixteen.
    unsafe {
        let some = _mm256_mask_loadu_epi16(_mm256_set1_epi16(rest.cast_signed()), first, from.as_ptr().cast());
        _mm256_storeu_si256(all.as_mut_ptr().cast(), some);
    }
    all
}

/// # Safety
/// The CPU has `avx512f,avx512bw`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn store_some(all: &[u16; 32], to: &mut [u16]) {
    assert!(to.len() < 32);
    // SAFETY: `all` has 32 elements, and those that the mask leaves out are not written.
    unsafe {
        let all = _mm512_loadu_si512(all.as_ptr().cast());
        _mm512_mask_storeu_epi16(to.as_mut_ptr().cast(), (1 << to.len()) - 1, all);
    }
}

/// Bits of which the upper half is that of numbers rounded to BF16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn rounded(bits: __m512i) -> __m512i {
    let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
    let down = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    _mm512_mask_add_epi32(down, odd, bits, _mm512_set1_epi32(0x8000))
}

/// `rounded` with the bits of `x` where that is NaN, made quiet.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn without_nan(x: __m512, rounded: __m512i) -> __m512i {
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    _mm512_mask_or_epi32(rounded, nan, _mm512_castps_si512(x), _mm512_set1_epi32(0x0040_0000))
}

#[repr(align(64))]
struct Places([u16; 32]);

/// Where the upper halves of two vectors of 32-bit elements lie.
static UPPER: Places = Places({
    let (mut places, mut i) = ([0; 32], 0);
    while i < 32 {
        places[i as usize] = 2 * i + 1;
        i += 1;
    }
    places
});
