//! Products of BF16 matrices with few columns, two terms of each sum at a time, as [`super::dot`] has them.
//!
//! As [`super::small`], which multiplies what it widened to F32 and is the reference. A left side whose rows run along memory is
//! multiplied as it lies; other sides are interleaved into pairs first. On Zen 5, 512 × 16 × 16 takes 1.3 µs where widening first
//! took 2.4, and 16 × 512 × 16 of two sides that are interleaved 1.1 where it took 2.0.

use super::operand::Matrix;
use super::panel::Panel;
use super::product::Sink;
use super::small::{FEW, STORED, Side, with_side};
use crate::scratch;
use crate::simd::LANES;
use half::bf16;
use std::arch::x86_64::*;

/// `a · bᵀ` on this thread, for an even depth, at least [`Avx512Bf16`](crate::simd::Level::Avx512Bf16).
pub(super) fn small(a: &Matrix, b: &Matrix, sink: &dyn Sink<f32>) {
    let (depth, columns) = (a.depth, b.rows);
    with_side(a, |left| {
        with_pairs(left, [a.rows, depth], left.depth != 1, |left| {
            with_side(b, |right| {
                with_pairs(right, [columns, depth], true, |right| {
                    for first in (0..a.rows).step_by(STORED) {
                        let rows = STORED.min(a.rows - first);
                        let left = Pairs { values: &left.values[first * left.row..], ..left };
                        sink.write_rows(first, rows, columns, &mut |sums| {
                            let block = Block { left, right, bias: sink.bias(), depth, columns, sums };
                            // SAFETY: only called where the level, and so the CPU, has the instructions (`bf16::small`).
                            unsafe { if columns <= LANES { block.run::<1, 16>(rows) } else { block.run::<2, 8>(rows) } }
                        });
                    }
                });
            });
        });
    });
}

/// Vectors of pairs: of neighbours along the depth.
#[derive(Clone, Copy)]
struct Pairs<'a> {
    values: &'a [bf16],
    /// Elements between vectors.
    row: usize,
    /// Elements between pairs of a vector.
    step: usize,
}

/// Calls `body` with pairs of a side's `rows` vectors: those that lie there, or `interleaved` so that each step's are side by side.
fn with_pairs(side: Side<bf16>, [rows, depth]: [usize; 2], interleaved: bool, body: impl FnOnce(Pairs)) {
    if !interleaved {
        return body(Pairs { values: side.values, row: side.row, step: 2 });
    }
    scratch::with(rows * depth, |values: &mut [bf16]| {
        if side.depth == 1 {
            Panel { width: rows, group: 2, step: 2 }.interleave(side.values, side.row, depth, values);
        } else {
            // SAFETY: as for the block.
            unsafe { interleave(side.values, side.depth, rows, values) };
        }
        body(Pairs { values, row: 2, step: 2 * rows });
    });
}

/// Makes one line of pairs of every two lines of `width` elements, which are `stride` apart.
///
/// # Safety
/// The CPU must have AVX-512 BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn interleave(lines: &[bf16], stride: usize, width: usize, out: &mut [bf16]) {
    let steps = out.len() / (2 * width);
    assert!((2 * steps - 1) * stride + width <= lines.len());
    for step in 0..steps {
        for column in (0..width).step_by(LANES) {
            let mask = first(width - column);
            // SAFETY: both lines end inside (asserted), as does that of pairs; the mask leaves out what is behind their ends.
            unsafe {
                let from = lines.as_ptr().add(2 * step * stride + column);
                let load = |from: *const bf16| _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from.cast()));
                let pairs = _mm512_or_si512(load(from), _mm512_slli_epi32::<16>(load(from.add(stride))));
                let to = out.as_mut_ptr().add(2 * (step * width + column));
                _mm512_mask_storeu_epi32(to.cast(), mask, pairs);
            }
        }
    }
}

/// A mask of the first lanes, of all if there are more elements.
fn first(elements: usize) -> u16 {
    if elements < LANES { (1 << elements) - 1 } else { u16::MAX }
}

/// Some rows of a product of up to two vectors of columns.
struct Block<'a> {
    left: Pairs<'a>,
    right: Pairs<'a>,
    /// Added to each row, if there is one.
    bias: &'a [f32],
    depth: usize,
    columns: usize,
    sums: &'a mut [f32],
}

impl Block<'_> {
    /// All `rows`, up to `R` at a time, of `V` vectors of columns.
    ///
    /// # Safety
    /// The CPU must have AVX512-BF16.
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn run<const V: usize, const R: usize>(self, rows: usize) {
        // SAFETY: the caller's duty.
        unsafe {
            match rows {
                _ if rows >= 2 * R || rows == R => self.groups::<V, R>(rows),
                // Four sums would be waited for, of 512 terms 0.1 µs.
                _ if rows >= 8 => self.groups::<V, 8>(rows),
                _ if rows >= FEW => self.groups::<V, FEW>(rows),
                _ => self.groups::<V, 1>(rows),
            }
        }
    }

    /// `N` rows at a time; the last group begins early where it would not be whole.
    ///
    /// # Safety
    /// As [`Self::run`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn groups<const V: usize, const N: usize>(self, rows: usize) {
        let Self { left, right, bias, depth, columns, sums } = self;
        assert!((rows - 1) * left.row + (depth / 2 - 1) * left.step + 2 <= left.values.len());
        assert!(depth * columns <= right.values.len() && rows * columns <= sums.len());
        assert!(columns <= V * LANES && (bias.is_empty() || bias.len() == columns));
        let biased = !bias.is_empty();
        let mut masks = [0; V];
        for (v, mask) in masks.iter_mut().enumerate() {
            *mask = first(columns.saturating_sub(v * LANES));
        }
        // SAFETY: rows, steps and columns of both sides, of the bias and of the sums lie inside (asserted), masks leave out other
        // columns. Both vector types are 64 bytes of plain bits, and pairs need not be aligned.
        unsafe {
            for row in (0..rows).step_by(N).map(|row| row.min(rows - N)) {
                let mut sums_here = [[_mm512_setzero_ps(); V]; N];
                for step in 0..depth / 2 {
                    let mut line = [_mm512_setzero_si512(); V];
                    for (v, line) in line.iter_mut().enumerate() {
                        let from = right.values.as_ptr().add(2 * (step * columns + v * LANES));
                        *line = _mm512_maskz_loadu_epi32(masks[v], from.cast());
                    }
                    let pairs = left.values.as_ptr().add(row * left.row + step * left.step);
                    for (r, sums) in sums_here.iter_mut().enumerate() {
                        let pair = pairs.add(r * left.row).cast::<i32>().read_unaligned();
                        let factor = std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(pair));
                        for (sum, line) in sums.iter_mut().zip(line) {
                            *sum = _mm512_dpbf16_ps(*sum, factor, std::mem::transmute::<__m512i, __m512bh>(line));
                        }
                    }
                }
                for (r, here) in sums_here.iter().enumerate() {
                    for (v, &sum) in here.iter().enumerate() {
                        let at = (row + r) * columns + v * LANES;
                        let bias = bias.as_ptr().wrapping_add(v * LANES);
                        let sum = if biased { _mm512_add_ps(sum, _mm512_maskz_loadu_ps(masks[v], bias)) } else { sum };
                        _mm512_mask_storeu_ps(sums.as_mut_ptr().add(at), masks[v], sum);
                    }
                }
            }
        }
    }
}
