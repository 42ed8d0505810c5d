//! Tiles of F32 and F64 by one algorithm ([`tile`]) over a minimal vector trait; `#[target_feature]` stands only on the
//! outermost wrappers.

use super::kernel::Full;
use crate::num::Real;
use crate::simd::Portable;

/// A register full of numbers.
pub(crate) trait Vector: Copy {
    type Element: Copy;
    const LANES: usize;
    const ZERO: Self::Element;

    /// # Safety
    /// The CPU must have the vector's instructions; `from` must be valid for `LANES` reads.
    unsafe fn load(from: *const Self::Element) -> Self;
    /// # Safety
    /// The CPU must have the vector's instructions.
    unsafe fn splat(value: Self::Element) -> Self;
    /// `self * b + c`
    ///
    /// # Safety
    /// The CPU must have the vector's instructions.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// # Safety
    /// The CPU must have the vector's instructions; `to` must be valid for `LANES` writes.
    unsafe fn store(self, to: *mut Self::Element);
}

/// A tile of `MR` rows and two vectors of columns.
///
/// # Safety
/// As [`super::kernel::Tile`].
#[inline(always)]
unsafe fn tile<V: Vector, const MR: usize>(
    depth: usize,
    a: *const V::Element,
    b: *const V::Element,
    c: *mut V::Element,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: `a` has `depth * MR` elements, `b` has `depth * 2 * LANES`, row `i` of `c` has `2 * LANES` from
    // `i * stride` on (caller); the loops stay inside these bounds.
    unsafe {
        let mut sums = [[V::splat(V::ZERO); 2]; MR];
        if accumulate {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = [V::load(c.add(i * stride)), V::load(c.add(i * stride + V::LANES))];
            }
        }
        let (mut a, mut b) = (a, b);
        for _ in 0..depth {
            let columns = [V::load(b), V::load(b.add(V::LANES))];
            for (i, sum) in sums.iter_mut().enumerate() {
                let row = V::splat(*a.add(i));
                sum[0] = row.mul_add(columns[0], sum[0]);
                sum[1] = row.mul_add(columns[1], sum[1]);
            }
            a = a.add(MR);
            b = b.add(2 * V::LANES);
        }
        for (i, sum) in sums.iter().enumerate() {
            sum[0].store(c.add(i * stride));
            sum[1].store(c.add(i * stride + V::LANES));
        }
    }
}

/// Four numbers that the compiler may put into whatever registers the target has.
#[derive(Clone, Copy)]
pub(crate) struct Four<T>([T; 4]);

impl<T: Real> Vector for Four<T> {
    type Element = T;
    const LANES: usize = 4;
    const ZERO: T = T::ZERO;

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: four elements are readable (caller).
        Self(unsafe { from.cast::<[T; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Self([value; 4])
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        Self(std::array::from_fn(|i| T::mul_add::<Portable>(self.0[i], b.0[i], c.0[i])))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: four elements are writable (caller).
        unsafe { to.cast::<[T; 4]>().write_unaligned(self.0) }
    }
}

/// # Safety
/// As [`super::kernel::Tile`]; runs on every CPU.
pub(super) unsafe fn portable<T: Full>(
    depth: usize,
    a: *const T,
    b: *const T,
    c: *mut T,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: the caller's duty.
    unsafe { tile::<Four<T>, 4>(depth, a, b, c, stride, accumulate) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::{Vector, tile};
    use std::arch::x86_64::*;

    macro_rules! vector {
        ($name:ident($register:ty) of $element:ty, $lanes:literal: $load:ident $splat:ident $mul_add:ident $store:ident) => {
            #[derive(Clone, Copy)]
            pub(crate) struct $name($register);

            impl Vector for $name {
                type Element = $element;
                const LANES: usize = $lanes;
                const ZERO: $element = 0.0;

                #[inline(always)]
                unsafe fn load(from: *const $element) -> Self {
                    // SAFETY: readable, and the instruction exists (caller).
                    Self(unsafe { $load(from) })
                }

                #[inline(always)]
                unsafe fn splat(value: $element) -> Self {
                    // SAFETY: the instruction exists (caller).
                    Self(unsafe { $splat(value) })
                }

                #[inline(always)]
                unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                    // SAFETY: the instruction exists (caller).
                    Self(unsafe { $mul_add(self.0, b.0, c.0) })
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $element) {
                    // SAFETY: writable, and the instruction exists (caller).
                    unsafe { $store(to, self.0) }
                }
            }
        };
    }

    vector!(F32x8(__m256) of f32, 8: _mm256_loadu_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_storeu_ps);
    vector!(F64x4(__m256d) of f64, 4: _mm256_loadu_pd _mm256_set1_pd _mm256_fmadd_pd _mm256_storeu_pd);
    vector!(F32x16(__m512) of f32, 16: _mm512_loadu_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_storeu_ps);
    vector!(F64x8(__m512d) of f64, 8: _mm512_loadu_pd _mm512_set1_pd _mm512_fmadd_pd _mm512_storeu_pd);

    macro_rules! kernel {
        ($name:ident, $features:literal, $vector:ty, $element:ty, $rows:literal) => {
            /// # Safety
            /// As [`super::super::kernel::Tile`].
            #[target_feature(enable = $features)]
            pub(in crate::gemm) unsafe fn $name(
                depth: usize,
                a: *const $element,
                b: *const $element,
                c: *mut $element,
                stride: usize,
                accumulate: bool,
            ) {
                // SAFETY: the caller's duty; the instructions are enabled here.
                unsafe { tile::<$vector, $rows>(depth, a, b, c, stride, accumulate) }
            }
        };
    }

    kernel!(avx2_f32, "avx2,fma", F32x8, f32, 6);
    kernel!(avx2_f64, "avx2,fma", F64x4, f64, 6);
    kernel!(avx512_f64, "avx512f", F64x8, f64, 12);
}
