//! Registers full of sums, and what is multiplied into them: numbers, or pairs of BF16.

use crate::convert::Cast;
use crate::gemm::vector::Vector;
use half::bf16;

/// A register full of sums and what is multiplied into it.
pub(super) trait Lanes {
    type Element: Copy;
    type Sum: Copy;
    /// What results are mostly stored in.
    type Result: Copy;
    /// [`Self::GROUP`] elements for each lane.
    type Factors: Copy;
    type Sums: Copy;
    const LANES: usize;
    const GROUP: usize;

    /// # Safety
    /// The CPU must have the vector's instructions; a group must be readable.
    unsafe fn splat(group: *const Self::Element) -> Self::Factors;
    /// # Safety
    /// The CPU must have the vector's instructions; a group for each lane must be readable.
    unsafe fn load(from: *const Self::Element) -> Self::Factors;
    /// One register or two of which each lane holds an element of every pixel, zero where there are fewer than a group.
    ///
    /// # Safety
    /// The CPU must have the vector's instructions; so many registers' lanes must be readable from each pixel.
    unsafe fn of_pixels<const N: usize>(data: *const Self::Element, pixels: &[usize]) -> [Self::Factors; N];
    /// # Safety
    /// The CPU must have the vector's instructions.
    unsafe fn multiply_add(a: Self::Factors, b: Self::Factors, c: Self::Sums) -> Self::Sums;
    /// # Safety
    /// The CPU must have the vector's instructions.
    unsafe fn zero() -> Self::Sums;
    /// # Safety
    /// The CPU must have the vector's instructions; all lanes must be readable.
    unsafe fn read(from: *const Self::Sum) -> Self::Sums;
    /// # Safety
    /// The CPU must have the vector's instructions; all lanes must be writable.
    unsafe fn write(sums: Self::Sums, to: *mut Self::Sum);
    /// Rounds one register's sums or two's.
    ///
    /// # Safety
    /// The CPU must have the vector's instructions; all their lanes must be writable.
    unsafe fn finish<const N: usize>(sums: [Self::Sums; N], to: *mut Self::Result);
}

impl<V: Vector> Lanes for V {
    type Element = V::Element;
    type Sum = V::Element;
    type Result = V::Element;
    type Factors = V;
    type Sums = V;
    const LANES: usize = V::LANES;
    const GROUP: usize = 1;

    #[inline(always)]
    unsafe fn splat(group: *const V::Element) -> V {
        // SAFETY: the caller's duty.
        unsafe { <V as Vector>::splat(*group) }
    }

    #[inline(always)]
    unsafe fn load(from: *const V::Element) -> V {
        // SAFETY: the caller's duty.
        unsafe { <V as Vector>::load(from) }
    }

    #[inline(always)]
    unsafe fn of_pixels<const N: usize>(data: *const V::Element, pixels: &[usize]) -> [V; N] {
        // SAFETY: the caller's duty.
        std::array::from_fn(|v| unsafe { <V as Vector>::load(data.add(pixels[0] + v * V::LANES)) })
    }

    #[inline(always)]
    unsafe fn multiply_add(a: V, b: V, c: V) -> V {
        // SAFETY: the caller's duty.
        unsafe { a.mul_add(b, c) }
    }

    #[inline(always)]
    unsafe fn zero() -> V {
        // SAFETY: the caller's duty.
        unsafe { <V as Vector>::splat(V::ZERO) }
    }

    #[inline(always)]
    unsafe fn read(from: *const V::Element) -> V {
        // SAFETY: the caller's duty.
        unsafe { <V as Vector>::load(from) }
    }

    #[inline(always)]
    unsafe fn write(sums: V, to: *mut V::Element) {
        // SAFETY: the caller's duty.
        unsafe { sums.store(to) }
    }

    #[inline(always)]
    unsafe fn finish<const N: usize>(sums: [V; N], to: *mut V::Element) {
        for (v, sums) in sums.iter().enumerate() {
            // SAFETY: the caller's duty.
            unsafe { sums.store(to.add(v * V::LANES)) };
        }
    }
}

/// Four sums of products of pairs, for machines without the instruction: what [`x86::Pairs`] computes.
pub(super) struct FourPairs;

impl Lanes for FourPairs {
    type Element = bf16;
    type Sum = f32;
    type Result = bf16;
    type Factors = [[bf16; 2]; 4];
    type Sums = [f32; 4];
    const LANES: usize = 4;
    const GROUP: usize = 2;

    #[inline(always)]
    unsafe fn splat(group: *const bf16) -> Self::Factors {
        // SAFETY: two elements are readable (caller).
        [unsafe { group.cast::<[bf16; 2]>().read_unaligned() }; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const bf16) -> Self::Factors {
        // SAFETY: eight elements are readable (caller).
        unsafe { from.cast::<Self::Factors>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn of_pixels<const N: usize>(data: *const bf16, pixels: &[usize]) -> [Self::Factors; N] {
        // SAFETY: four elements are readable for each register from each pixel (caller).
        let of = |pixel: usize| unsafe { data.add(pixel).cast::<[[bf16; 4]; N]>().read_unaligned() };
        let (even, odd) = (of(pixels[0]), pixels.get(1).map_or([Default::default(); N], |&pixel| of(pixel)));
        std::array::from_fn(|half| std::array::from_fn(|lane| [even[half][lane], odd[half][lane]]))
    }

    #[inline(always)]
    unsafe fn multiply_add(a: Self::Factors, b: Self::Factors, c: [f32; 4]) -> [f32; 4] {
        let product = |lane: usize, k: usize| f32::from(a[lane][k]) * f32::from(b[lane][k]);
        std::array::from_fn(|lane| c[lane] + product(lane, 0) + product(lane, 1))
    }

    #[inline(always)]
    unsafe fn zero() -> [f32; 4] {
        [0.0; 4]
    }

    #[inline(always)]
    unsafe fn read(from: *const f32) -> [f32; 4] {
        // SAFETY: four elements are readable (caller).
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn write(sums: [f32; 4], to: *mut f32) {
        // SAFETY: four elements are writable (caller).
        unsafe { to.cast::<[f32; 4]>().write_unaligned(sums) }
    }

    #[inline(always)]
    unsafe fn finish<const N: usize>(sums: [[f32; 4]; N], to: *mut bf16) {
        // SAFETY: four elements are writable for each register (caller).
        unsafe { to.cast::<[[bf16; 4]; N]>().write_unaligned(sums.map(|sums| sums.map(Cast::converted))) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::Lanes;
    use half::bf16;
    use std::arch::x86_64::*;

    /// 16 sums of products of pairs by `vdpbf16ps`; see [`crate::gemm::dot`] for its rounding.
    pub(in super::super) struct Pairs;

    impl Lanes for Pairs {
        type Element = bf16;
        type Sum = f32;
        type Result = bf16;
        type Factors = __m512i;
        type Sums = __m512;
        const LANES: usize = 16;
        const GROUP: usize = 2;

        #[inline(always)]
        unsafe fn splat(group: *const bf16) -> __m512i {
            // SAFETY: two elements are readable, and the instruction exists (caller).
            unsafe { _mm512_set1_epi32(group.cast::<i32>().read_unaligned()) }
        }

        #[inline(always)]
        unsafe fn load(from: *const bf16) -> __m512i {
            // SAFETY: 32 elements are readable, and the instruction exists (caller).
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn of_pixels<const N: usize>(data: *const bf16, pixels: &[usize]) -> [__m512i; N] {
            const fn places(from: u16) -> [u16; 32] {
                let mut places = [0; 32];
                let mut i = 0;
                while i < 16 {
                    places[2 * i] = from + i as u16;
                    places[2 * i + 1] = 32 + from + i as u16;
                    i += 1;
                }
                places
            }
            const PLACES: [[u16; 32]; 2] = [places(0), places(16)];
            // SAFETY: 16 elements are readable for each register from each pixel, the instructions exist (caller), and the
            // tables are as long as a register.
            unsafe {
                let of = |pixel: usize| match N {
                    1 => _mm512_zextsi256_si512(_mm256_loadu_si256(data.add(pixel).cast())),
                    _ => _mm512_loadu_si512(data.add(pixel).cast()),
                };
                let (even, odd) = (of(pixels[0]), pixels.get(1).map_or(_mm512_setzero_si512(), |&pixel| of(pixel)));
                std::array::from_fn(|half| {
                    _mm512_permutex2var_epi16(even, _mm512_loadu_si512(PLACES[half].as_ptr().cast()), odd)
                })
            }
        }

        #[inline(always)]
        unsafe fn multiply_add(a: __m512i, b: __m512i, c: __m512) -> __m512 {
            // SAFETY: the instruction exists (caller); the vector types are both 64 bytes of plain bits.
            unsafe {
                _mm512_dpbf16_ps(
                    c,
                    std::mem::transmute::<__m512i, __m512bh>(a),
                    std::mem::transmute::<__m512i, __m512bh>(b),
                )
            }
        }

        #[inline(always)]
        unsafe fn zero() -> __m512 {
            // SAFETY: the instruction exists (caller).
            unsafe { _mm512_setzero_ps() }
        }

        #[inline(always)]
        unsafe fn read(from: *const f32) -> __m512 {
            // SAFETY: readable, and the instruction exists (caller).
            unsafe { _mm512_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn write(sums: __m512, to: *mut f32) {
            // SAFETY: writable, and the instruction exists (caller).
            unsafe { _mm512_storeu_ps(to, sums) }
        }

        /// The instruction takes denormal numbers for zeros, and sums of the other one are none.
        #[inline(always)]
        unsafe fn finish<const N: usize>(sums: [__m512; N], to: *mut bf16) {
            // SAFETY: writable, and the instruction exists (caller); the vector types are of as many bytes of plain bits.
            unsafe {
                if N == 1 {
                    let rounded = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(sums[0]));
                    return _mm256_storeu_si256(to.cast(), rounded);
                }
                let rounded = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(sums[1], sums[0]));
                _mm512_storeu_si512(to.cast(), rounded);
            }
        }
    }
}
