//! Numbers of F16 as the two parts that they are the sum of.

use super::{PARTS, STEP};
use crate::convert::Compute;
use crate::output::prefetch;
use crate::simd::{Kernel, Simd};
use crate::{Slice, SliceMut};
use half::{bf16, f16};

/// Lines that are prefetched.
const AHEAD: usize = 12;

/// How lines are split.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Lines, and elements of each; others are zeros.
    pub count: usize,
    pub len: usize,
    /// Elements of a line with its padding.
    pub long: usize,
    /// Elements whose high parts follow one another, and then their low parts.
    pub chunk: usize,
}

/// Splits lines, `stride` apart, of numbers rounded to F16; tells whether all of them are finite.
pub(super) struct Split<'a, T> {
    pub lines: &'a [T],
    pub stride: usize,
    pub form: Form,
    pub parts: &'a mut [bf16],
}

impl<T: Source> Kernel for Split<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        let mut rests = [0.0; STEP];
        let Self { lines, stride, form: Form { count, len, long, chunk }, parts } = self;
        let (there, rest) = parts.split_at_mut(count * PARTS * long);
        rest.fill(bf16::ZERO);
        for (i, parts) in there.chunks_exact_mut(PARTS * long).enumerate() {
            if let Some(line) = lines.get((i + AHEAD) * stride..) {
                prefetch(&line[..len.min(line.len())]);
            }
            let line = &lines[i * stride..][..len];
            for (c, parts) in parts.chunks_exact_mut(PARTS * chunk).enumerate() {
                let (highs, lows) = parts.split_at_mut(chunk);
                let steps = highs.as_chunks_mut::<STEP>().0.iter_mut().zip(lows.as_chunks_mut::<STEP>().0);
                for (s, (high, low)) in steps.enumerate() {
                    let from = line.get(c * chunk + s * STEP..).unwrap_or_default();
                    if let Some(whole) = from.first_chunk() {
                        halve(T::wide::<S>(whole), high, low, &mut rests);
                    } else {
                        let mut padded = [T::default(); STEP];
                        padded[..from.len()].copy_from_slice(from);
                        halve(T::wide::<S>(&padded), high, low, &mut rests);
                    }
                }
            }
        }
        rests.iter().all(|rest| rest.is_finite())
    }
}

/// Splits some numbers; `rests` remembers any that is not finite, whose rest is NaN.
#[inline(always)]
fn halve(from: [f32; STEP], highs: &mut [bf16; STEP], lows: &mut [bf16; STEP], rests: &mut [f32; STEP]) {
    for (((x, high), low), rests) in from.iter().zip(highs).zip(lows).zip(rests) {
        // Veltkamp's splitting: what is left after the first eight bits, rounded to the nearest.
        let scaled = x * 65537.0;
        let rounded = scaled - (scaled - x);
        let rest = x - rounded;
        *high = bf16::from_bits((rounded.to_bits() >> 16) as u16);
        *low = bf16::from_bits((rest.to_bits() >> 16) as u16);
        *rests += 0.0 * rest;
    }
}

/// What numbers are stored as.
pub(super) trait Source: Copy + Default {
    /// The numbers, rounded to F16; `#[inline(always)]`, for [`Kernel::run`].
    fn wide<S: Simd>(from: &[Self; STEP]) -> [f32; STEP];
}

impl Source for f16 {
    #[inline(always)]
    fn wide<S: Simd>(from: &[Self; STEP]) -> [f32; STEP] {
        let mut wide = [0.0; STEP];
        f32::widen_within::<S>(Slice::F16(from), 0, &mut wide);
        wide
    }
}

impl Source for f32 {
    #[inline(always)]
    fn wide<S: Simd>(from: &[Self; STEP]) -> [f32; STEP] {
        let mut narrow = [f16::ZERO; STEP];
        f32::narrow_within::<S>(from, &mut SliceMut::F16(&mut narrow), 0);
        f16::wide::<S>(&narrow)
    }
}
