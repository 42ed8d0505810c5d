//! Patches as lines, im2col for the pixels of one tile at a time: for tiles that cannot read patches where they lie.
//!
//! On two threads of a Xeon with AMX, 64 outputs of three channels of 32 by 32 (128 images), 3 x 3, take 1.2 ms where F32 without tiles
//! took 2.6, of 7 x 7 by steps of two of 56 by 56 (32 images) 0.56 and not 2.8; kernels' gradients 1.7 and 1.4 and not 3.5 and 2.5. Of
//! the first, tiles of one step each are a third, lines a fifth, rounding a quarter.

use super::patch::{Block, Pixel, Run};
use crate::gemm::kernel::Multiply;
#[cfg(target_arch = "x86_64")]
use crate::simd::Level;

/// Elements of a step: the bits of a mask.
const STEP: usize = 32;

/// A step of every pixel's line.
pub(super) struct Line {
    /// Its place along the whole depth.
    pub depth: usize,
    /// The elements of each run that are in it: their bits, and how far from the pixel the step would begin if all were.
    parts: Vec<(u32, isize)>,
}

/// The steps of a class's pixels that read something, in order.
pub(super) fn of(block: &Block, class: usize, step: usize) -> Vec<Line> {
    assert_eq!(step, STEP);
    let line = |start: usize| {
        let part = |run: &Run| {
            let (from, to) = (run.start.max(start), (run.start + run.len).min(start + STEP));
            let bits = |len: usize| (1_u64 << len) - 1;
            let mask = |from: usize, to: usize| (bits(to - start) & !bits(from - start)) as u32;
            (from < to).then(|| (mask(from, to), run.at as isize + start as isize - run.start as isize))
        };
        Line { depth: block.start + start, parts: block.runs[class].iter().filter_map(part).collect() }
    };
    (0..block.depth).step_by(STEP).map(line).filter(|line| !line.parts.is_empty()).collect()
}

/// Writes the lines of some pixels, zeros where no run has anything.
pub(super) fn pack<E: Multiply>(lines: &[Line], data: &[E], pixels: &[Pixel], out: &mut [E]) {
    #[cfg(target_arch = "x86_64")]
    if size_of::<E>() == 2 && Level::current() >= Level::Avx512 {
        let last = pixels.iter().map(|pixel| pixel.at).max().unwrap_or(0) as isize;
        let ends = lines
            .iter()
            .flat_map(|line| &line.parts)
            .map(|(mask, at)| at + (STEP as u32 - mask.leading_zeros()) as isize);
        assert!(ends.max().is_none_or(|end| last + end <= data.len() as isize));
        assert_eq!(out.len(), pixels.len() * lines.len() * STEP);
        // SAFETY: the level has every feature that is enabled there, elements are 16 bits, every part of every pixel ends inside
        // `data` and there is room for all lines (asserted); no run begins before its pixel.
        return unsafe { x86::pack(lines, data.as_ptr().cast(), pixels, out.as_mut_ptr().cast()) };
    }
    for (pixel, out) in pixels.iter().zip(out.chunks_exact_mut(STEP * lines.len().max(1))) {
        for (line, out) in lines.iter().zip(out.chunks_exact_mut(STEP)) {
            out.fill(E::default());
            for &(mask, at) in &line.parts {
                let from = mask.trailing_zeros() as usize..(STEP - mask.leading_zeros() as usize);
                let start = (pixel.at as isize + at) as usize;
                out[from.clone()].copy_from_slice(&data[start.wrapping_add(from.start)..][..from.len()]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use std::arch::x86_64::*;

    /// Writes lines in whole vectors: a few elements at a time, as runs have them, were as many calls.
    ///
    /// # Safety
    /// The CPU has the features; every part of every pixel is readable, as many steps writable as lines of all pixels have.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn pack(lines: &[Line], data: *const u16, pixels: &[Pixel], mut out: *mut u16) {
        for pixel in pixels {
            let from = data.wrapping_add(pixel.at);
            for line in lines {
                let mut step = _mm512_setzero_si512();
                for &(mask, at) in &line.parts {
                    // SAFETY: what is not in the mask is not read; the caller's duty.
                    let part = unsafe { _mm512_maskz_loadu_epi16(mask, from.wrapping_offset(at).cast()) };
                    step = _mm512_or_si512(step, part);
                }
                // SAFETY: the caller's duty.
                unsafe {
                    _mm512_storeu_si512(out.cast(), step);
                    out = out.add(STEP);
                }
            }
        }
    }
}
