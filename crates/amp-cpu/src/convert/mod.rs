//! Conversions between every pair of element types: exact where widening, to nearest even where narrowing.
//!
//! Floating point to integer truncates and saturates, NaN becomes 0; integer to byte keeps the low 8 bits; anything
//! but zero is true.

mod bits16;
mod stored;
#[cfg(test)]
mod tests;

use crate::simd::{Kernel, Level, Simd, dispatch, run_portable};
use crate::storage::Element;
use crate::{DType, Slice, SliceMut};
use bits16::{NarrowBF16, NarrowF16, WidenF16, bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use half::{bf16, f16};
use std::marker::PhantomData;
pub(crate) use stored::Stored;

/// Converts one element.
pub(crate) trait Cast<T>: Copy {
    fn converted(self) -> T;
}

/// A type that kernels compute in: F32, F64 or I64.
pub(crate) trait Compute:
    Element
    + Copy
    + Default
    + PartialEq
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Cast<f16>
    + Cast<bf16>
    + Cast<f32>
    + Cast<f64>
    + Cast<i64>
    + Cast<u8>
    + Cast<bool>
{
    /// Tag of this type.
    const STORED: DType;
    /// The highest level that kernels of this type are compiled for.
    ///
    /// Each level is a copy of every kernel, and compiling those is most of a build. F32, in which 16-bit tensors compute,
    /// has all. F64 serves references and checks, and takes its exponentials from the C library one at a time: its copies for
    /// AVX2 were a sixth of the code of all kernels. Without them sums and norms in the caches take 1.5 times as long, softmax
    /// as long and gelu a third less; products have theirs. Integers are counted and compared, not multiplied.
    const WIDEST: Level;

    /// Converts `src` to this type.
    fn widen(src: Slice<'_>, dst: &mut [Self]);

    /// Converts to the type of `dst`.
    fn narrow(src: &[Self], dst: &mut SliceMut<'_>);

    /// Converts every `stride`th element of `src`, from the first on.
    fn gather(src: Slice<'_>, stride: usize, dst: &mut [Self]);

    /// Rounds to the precision `logical` where that has fewer bits.
    fn round_to(logical: DType, values: &mut [Self]);

    /// [`Self::widen`] of elements `at..` inside of a kernel.
    fn widen_within<S: Simd>(src: Slice<'_>, at: usize, dst: &mut [Self]);

    /// [`Self::narrow`] to elements `at..` inside of a kernel.
    fn narrow_within<S: Simd>(src: &[Self], dst: &mut SliceMut<'_>, at: usize);
}

/// Converts every element.
pub(crate) struct Each<'a, A, B>(pub &'a [A], pub &'a mut [B]);

impl<A: Cast<B>, B> Kernel for Each<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for (d, s) in self.1.iter_mut().zip(self.0) {
            *d = s.converted();
        }
    }
}

/// Rounds every element to the values of `N`.
struct Round<'a, T, N>(&'a mut [T], PhantomData<N>);

impl<T: Cast<N>, N: Cast<T>> Kernel for Round<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for v in self.0 {
            *v = <T as Cast<N>>::converted(*v).converted();
        }
    }
}

macro_rules! each_dtype {
    ($slice:expr, $enum:ident, $v:ident => $body:expr) => {
        match $slice {
            $enum::F16($v) => $body,
            $enum::BF16($v) => $body,
            $enum::F32($v) => $body,
            $enum::F64($v) => $body,
            $enum::I64($v) => $body,
            $enum::U8($v) => $body,
            $enum::Bool($v) => $body,
        }
    };
}
pub(crate) use each_dtype;

macro_rules! compute {
    ($type:ty, $tag:ident, $widest:ident, $widen_f16:ident, $narrow_f16:ident, $narrow_bf16:ident) => {
        impl Compute for $type {
            const STORED: DType = DType::$tag;
            const WIDEST: Level = Level::$widest;

            fn widen(src: Slice<'_>, dst: &mut [Self]) {
                match src {
                    Slice::F16(v) => dispatch($widen_f16(v, dst)),
                    Slice::$tag(v) => dst.copy_from_slice(v),
                    _ => each_dtype!(src, Slice, v => dispatch(Each(v, dst))),
                }
            }

            fn narrow(src: &[Self], dst: &mut SliceMut<'_>) {
                match dst {
                    SliceMut::F16(v) => dispatch($narrow_f16(src, v)),
                    SliceMut::BF16(v) => dispatch($narrow_bf16(src, v)),
                    SliceMut::$tag(v) => v.copy_from_slice(src),
                    _ => each_dtype!(dst, SliceMut, v => dispatch(Each(src, v))),
                }
            }

            fn gather(src: Slice<'_>, stride: usize, dst: &mut [Self]) {
                if let Slice::F16(v) = src {
                    return gather_f16(v, stride, dst);
                }
                each_dtype!(src, Slice, v => {
                    for (d, s) in dst.iter_mut().zip(v.iter().step_by(stride)) {
                        *d = s.converted();
                    }
                })
            }

            fn round_to(logical: DType, values: &mut [Self]) {
                match logical {
                    DType::F16 => dispatch(Round::<_, f16>(values, PhantomData)),
                    DType::BF16 => dispatch(Round::<_, bf16>(values, PhantomData)),
                    DType::F32 => dispatch(Round::<_, f32>(values, PhantomData)),
                    _ => {}
                }
            }

            #[inline(always)]
            fn widen_within<S: Simd>(src: Slice<'_>, at: usize, dst: &mut [Self]) {
                match src {
                    Slice::F16(v) => within::<S, _>($widen_f16(&v[at..][..dst.len()], dst)),
                    Slice::BF16(v) => within::<S, _>(Each(&v[at..][..dst.len()], dst)),
                    _ => Compute::widen(src.range(at, dst.len()), dst),
                }
            }

            #[inline(always)]
            fn narrow_within<S: Simd>(src: &[Self], dst: &mut SliceMut<'_>, at: usize) {
                match dst {
                    SliceMut::F16(v) => within::<S, _>($narrow_f16(src, &mut v[at..][..src.len()])),
                    SliceMut::BF16(v) => within::<S, _>($narrow_bf16(src, &mut v[at..][..src.len()])),
                    _ => Self::narrow(src, &mut dst.range(at, src.len())),
                }
            }
        }
    };
}

/// A conversion inside of a kernel: in place of a call, but at the portable level, where each operation's copies were half of
/// its code.
#[inline(always)]
fn within<S: Simd, K: Kernel<Output = ()>>(kernel: K) {
    if const { S::LEVEL.reaches(Level::Avx2) } { kernel.run::<S>() } else { run_portable(kernel) }
}

/// Collects before it converts, so that the conversion is by whole vectors.
fn gather_f16<T: Compute>(src: &[f16], stride: usize, dst: &mut [T]) {
    let mut near = [f16::ZERO; 128];
    for (i, dst) in dst.chunks_mut(near.len()).enumerate() {
        let near = &mut near[..dst.len()];
        let far = src[i * 128 * stride..].iter().step_by(stride);
        near.iter_mut().zip(far).for_each(|(n, &f)| *n = f);
        T::widen(Slice::F16(near), dst);
    }
}

compute!(f32, F32, Amx, WidenF16, NarrowF16, NarrowBF16);
compute!(f64, F64, Portable, Each, Each, Each);
compute!(i64, I64, Portable, Each, Each, Each);

/// Rounds to an F32 whose last bit is 1 unless the value is exact: rounding that again, to 16 bits, gives what rounding
/// the F64 at once would. (`half`'s own conversion from F64 ignores the low 32 bits and so misjudges ties.)
#[inline(always)]
pub(crate) fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || value.is_nan() {
        return nearest;
    }
    let truncated = nearest.to_bits() - u32::from(back.abs() > value.abs());
    f32::from_bits(truncated | 1)
}

/// [`round_to_odd`] of an integer.
#[inline(always)]
fn integer_to_odd(value: i64) -> f32 {
    let magnitude = value.unsigned_abs();
    let cut = (u64::BITS - magnitude.leading_zeros()).saturating_sub(f32::MANTISSA_DIGITS);
    let kept = magnitude >> cut;
    let odd = (kept | u64::from(kept << cut != magnitude)) << cut;
    if value < 0 { -(odd as f32) } else { odd as f32 }
}

macro_rules! cast {
    ($($from:ty => $to:ty: $v:ident => $body:expr;)*) => {
        $(impl Cast<$to> for $from {
            #[inline(always)]
            fn converted(self) -> $to {
                let $v = self;
                $body
            }
        })*
    };
}

cast! {
    f16 => f32: v => f16_to_f32(v.to_bits());
    bf16 => f32: v => bf16_to_f32(v.to_bits());
    f32 => f32: v => v;
    f64 => f32: v => v as f32;
    i64 => f32: v => v as f32;
    u8 => f32: v => v as f32;
    bool => f32: v => v as u8 as f32;

    f16 => f64: v => f64::from(f16_to_f32(v.to_bits()));
    bf16 => f64: v => f64::from(bf16_to_f32(v.to_bits()));
    f32 => f64: v => v as f64;
    f64 => f64: v => v;
    i64 => f64: v => v as f64;
    u8 => f64: v => v as f64;
    bool => f64: v => v as u8 as f64;

    f16 => i64: v => f16_to_f32(v.to_bits()) as i64;
    bf16 => i64: v => bf16_to_f32(v.to_bits()) as i64;
    f32 => i64: v => v as i64;
    f64 => i64: v => v as i64;
    i64 => i64: v => v;
    u8 => i64: v => v as i64;
    bool => i64: v => v as i64;

    f32 => f16: v => f16::from_bits(f32_to_f16(v));
    f32 => bf16: v => bf16::from_bits(f32_to_bf16(v));
    f32 => u8: v => v as u8;
    f32 => bool: v => v != 0.0;

    f64 => f16: v => f16::from_bits(f32_to_f16(round_to_odd(v)));
    f64 => bf16: v => bf16::from_bits(f32_to_bf16(round_to_odd(v)));
    f64 => u8: v => v as u8;
    f64 => bool: v => v != 0.0;

    i64 => f16: v => (v as f32).converted();
    i64 => bf16: v => bf16::from_bits(f32_to_bf16(integer_to_odd(v)));
    i64 => u8: v => v as u8;
    i64 => bool: v => v != 0;
}
