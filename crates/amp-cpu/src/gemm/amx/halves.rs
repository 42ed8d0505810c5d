//! Products of F16 as products of BF16 of three or four times the depth.
//!
//! An F16 number has 11 significant bits and BF16 8: `x = high + low`, `high` being `x` rounded to BF16 and `low` the rest,
//! which has three bits at most and is no less than 2^-24, so both are exact. The four products are summed, of a depth of
//! more than [`SHORT`] the first three: `high·high + high·low + low·high + low·low`. In each 32 steps of the depth (a tile's)
//! the left side lies as high, high, low, low and the right side as high, low, high, low.
//!
//! The second `high` is zero where `x` is infinite or no number: `∞·low` would be no number wherever `low` is zero. The
//! product of the first two is then what F32 arithmetic gives, for `high` is zero only where `x` is.
//!
//! **Error.** `|low| <= 2^-8·|x|`, so leaving out `low·low` costs at most `2^-16·Σ|a·b|`, as much as 256 roundings of the
//! sum: of a few terms that cancel it was most of the error of a result ([33, 2] · [2, 65], off by a unit in its last place),
//! of more than [`SHORT`] it is small against what F32 arithmetic may cost. The sum of `3n` or `4n` exact products costs as
//! many times `2^-24·Σ|a·b|·(1 + 2^-6)`. No product is subnormal.

use crate::convert::Cast;
use crate::gemm::cut::Cut;
use crate::gemm::kernel::Kernel as Tiles;
use crate::gemm::operand::{Matrix, Operand};
use crate::gemm::panel::Panel;
use crate::gemm::product::{Sink, Threads, product_with};
use crate::load::load;
use crate::scratch;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, View};
use half::bf16;
use std::ops::Range;

/// Steps of the depth that are split at a time.
const STEP: usize = super::STEP;
/// The longest depth of which all products are summed.
const SHORT: usize = 128;
/// Panels that are written side by side.
const PANELS: usize = 8;

/// Whether the products of two operands are those of halves: both count as F16 and the machine multiplies BF16 by AMX.
pub(crate) fn multiplies(a: &View<'_>, b: &View<'_>) -> bool {
    a.logical == DType::F16 && b.logical == DType::F16 && Level::current() == Level::Amx
}

/// Computes `a · bᵀ` of F16 row by row into `sink`.
pub(crate) fn product(a: &Matrix, b: &Matrix, sink: &dyn Sink<f32>, threads: Threads) {
    let parts = parts(a.depth);
    let (left, right) = (Halves { matrix: a, low_first: false, parts }, Halves { matrix: b, low_first: true, parts });
    product_with(kernel(parts), &left, &right, sink, threads);
}

/// How many products are summed of each of so many terms.
fn parts(depth: usize) -> usize {
    if depth > SHORT { 3 } else { 4 }
}

/// The kernel of BF16 with blocks of whole steps.
fn kernel(parts: usize) -> Tiles<bf16> {
    let depth = Cut { usual: parts * STEP * 3, longest: STEP * 12, step: parts * STEP };
    Tiles { depth, ..super::kernel() }
}

/// A matrix of F16, each 32 steps of its depth three or four times.
struct Halves<'a> {
    matrix: &'a Matrix<'a>,
    /// Whether low parts come before the second high ones.
    low_first: bool,
    parts: usize,
}

impl Operand<bf16> for Halves<'_> {
    fn rows(&self) -> usize {
        self.matrix.rows
    }

    fn depth(&self) -> usize {
        self.parts * self.matrix.depth.next_multiple_of(STEP)
    }

    fn runs_along(&self) -> bool {
        self.matrix.depth_stride == 1
    }

    fn pack(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [bf16]) {
        debug_assert!(depth.start.is_multiple_of(self.parts * STEP) && depth.end.is_multiple_of(self.parts * STEP));
        let depth = depth.start / self.parts..depth.end / self.parts;
        if panel.width == 1 {
            let lines = out.chunks_exact_mut(self.parts * depth.len()).zip(rows);
            scratch::with(depth.len(), |wide: &mut [f32]| {
                lines.for_each(|(line, row)| self.load(row, depth.clone(), wide, line));
            });
        } else if self.matrix.row_stride == 1 && self.matrix.rows > 1 {
            self.pack_across(rows, depth, panel, out);
        } else {
            self.pack_along(rows, depth, panel, out);
        }
    }
}

impl Halves<'_> {
    /// Packs when neighbouring rows are neighbours in memory: 32 runs of some panels' rows at a time.
    fn pack_across(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [bf16]) {
        let (matrix, long) = (self.matrix, self.parts * depth.len());
        let most = PANELS * panel.width;
        scratch::with(most, |wide: &mut [f32]| {
            scratch::with(self.parts * STEP * most, |runs: &mut [bf16]| {
                for first in (0..rows.len()).step_by(most) {
                    let here = most.min(rows.len() - first);
                    let padded = panel.rows(here);
                    let wide = &mut wide[..padded];
                    for start in depth.clone().step_by(STEP) {
                        for step in 0..STEP {
                            let d = start + step;
                            let here = if d < matrix.depth { here } else { 0 };
                            let from = matrix.offset + rows.start + first + d * matrix.depth_stride;
                            load(&matrix.view, from, 1, &mut wide[..here]);
                            wide[here..].fill(0.0);
                            self.split(wide, &mut runs[step * padded..], STEP * padded);
                        }
                        let count = [self.parts * STEP / panel.group, padded / panel.width];
                        let at = first * long + self.parts * (start - depth.start) * panel.width;
                        panel.weave_across(runs, padded, count, panel.width * long, &mut out[at..]);
                    }
                }
            });
        });
    }

    /// Packs when the depth runs along memory: the rows of a panel one by one.
    fn pack_along(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [bf16]) {
        let long = self.parts * depth.len();
        scratch::with(depth.len(), |wide: &mut [f32]| {
            scratch::with(panel.width * long, |lines: &mut [bf16]| {
                let firsts = rows.clone().step_by(panel.width);
                for (first, out) in firsts.zip(out.chunks_exact_mut(panel.width * long)) {
                    for (row, line) in (first..).zip(lines.chunks_exact_mut(long)) {
                        match row < rows.end {
                            true => self.load(row, depth.clone(), wide, line),
                            false => line.fill(bf16::ZERO),
                        }
                    }
                    panel.weave(lines, long, long, out);
                }
            });
        });
    }

    /// Writes some of a row, the parts of each step one after the other, by way of `wide`.
    fn load(&self, row: usize, depth: Range<usize>, wide: &mut [f32], line: &mut [bf16]) {
        let matrix = self.matrix;
        let here = depth.end.min(matrix.depth).saturating_sub(depth.start);
        let from = matrix.offset + row * matrix.row_stride + depth.start * matrix.depth_stride;
        load(&matrix.view, from, matrix.depth_stride, &mut wide[..here]);
        wide[here..].fill(0.0);
        for (wide, line) in wide.chunks_exact(STEP).zip(line.chunks_exact_mut(self.parts * STEP)) {
            self.split(wide, line, STEP);
        }
    }

    /// Writes the parts of F16 numbers, `distance` apart.
    fn split(&self, from: &[f32], parts: &mut [bf16], distance: usize) {
        let (high, parts) = parts.split_at_mut(distance);
        let (second, parts) = parts.split_at_mut(distance);
        let (third, fourth) = parts.split_at_mut(distance.min(parts.len()));
        let (finite, low) = if self.low_first { (third, second) } else { (second, third) };
        dispatch(Split { from, high, finite, low });
        if self.parts == 4 {
            fourth[..from.len()].copy_from_slice(&low[..from.len()]);
        }
    }
}

/// Splits numbers of F16 precision; see the module's documentation.
struct Split<'a> {
    from: &'a [f32],
    high: &'a mut [bf16],
    finite: &'a mut [bf16],
    low: &'a mut [bf16],
}

impl Kernel for Split<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let count = self.from.len();
        let (highs, finites, lows) = (&mut self.high[..count], &mut self.finite[..count], &mut self.low[..count]);
        for (((&x, high), finite), low) in self.from.iter().zip(highs).zip(finites).zip(lows) {
            *high = x.converted();
            let rest = x - f32::from_bits(u32::from(high.to_bits()) << 16);
            let keep = if x.abs() < f32::INFINITY { 0xffff } else { 0 };
            *finite = bf16::from_bits(high.to_bits() & keep);
            *low = bf16::from_bits((rest.to_bits() >> 16) as u16 & keep);
        }
    }
}
