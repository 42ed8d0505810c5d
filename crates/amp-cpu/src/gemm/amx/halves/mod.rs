//! Products of F16 as products of BF16 of twice the depth.
//!
//! An F16 number has 11 significant bits and BF16 8: `x = high + low`, `high` being `x` rounded to BF16 and `low` the rest,
//! which has three bits at most and is no less than 2^-24, so both are exact. Each 32 steps of the depth (a tile's) lie as high
//! parts and then low ones, and tiles sum `low·high + high·high + high·low`, of a depth of up to [`SHORT`] `low·low` too.
//!
//! Infinities have no such parts (`∞·low` is NaN wherever `low` is zero): the elements that depend on them are computed in F32
//! ([`finite`]).
//!
//! **Error.** `|low| <= 2^-8·|x|`, so leaving out `low·low` costs at most `2^-16·Σ|a·b|`, as much as 256 roundings of the
//! sum: of a few terms that cancel it was most of the error of a result ([33, 2] · [2, 65], off by a unit in its last place),
//! of more than [`SHORT`] it is small against what F32 arithmetic may cost. The sum of `3n` or `4n` exact products costs as
//! many times `2^-24·Σ|a·b|·(1 + 2^-6)`. No product is subnormal.
//!
//! **Speed.** Tiles reach 2.2 to 2.7 of the 3.85 TFLOP/s of a core, a third of it in products of F16. High parts are loaded once,
//! not once for each of the products; the depth is cut into parts of 128 steps, for both sides' parts have to stay in L1.
//! More in `benches/record/findings.md`.

mod finite;
mod split;
mod tile;

use crate::gemm::cut::Cut;
use crate::gemm::kernel::MicroKernel;
use crate::gemm::operand::{Matrix, Operand};
use crate::gemm::panel::Panel;
use crate::gemm::product::{Sink, Threads, product_with};
use crate::load::load;
use crate::simd::{Level, dispatch};
use crate::{DType, Slice, View, scratch};
use finite::Finite;
use half::bf16;
use split::{Form, Source, Split};
use std::ops::Range;

/// Steps of the depth whose parts follow one another.
const STEP: usize = super::STEP;
/// Parts of a number.
const PARTS: usize = 2;
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
    let finite = Finite::new(sink, [a.rows, b.rows]);
    let [left, right] = [a, b].map(|matrix| Halves { matrix, finite: &finite });
    product_with(kernel(a.depth), &left, &right, &finite, threads);
    finite.finish(a, b, threads);
}

/// The kernel for so many terms.
fn kernel(depth: usize) -> MicroKernel<bf16> {
    let cut = Cut { usual: PARTS * STEP * 4, longest: PARTS * STEP * 6, step: PARTS * STEP };
    let few = MicroKernel {
        depth: cut,
        tile: tile::tile::<true>,
        direct: Some(tile::direct::<true, false>),
        ahead: None,
        scattered: None,
        streamed: None,
        ..super::kernel()
    };
    if depth <= SHORT {
        return few;
    }
    let [direct, ahead] = [tile::direct::<false, false> as _, tile::direct::<false, true> as _].map(Some);
    MicroKernel { tile: tile::tile::<false>, direct, ahead, ..few }
}

/// A matrix of F16 as its parts.
struct Halves<'a> {
    matrix: &'a Matrix<'a>,
    /// Told of elements that are not finite.
    finite: &'a Finite<'a>,
}

impl Operand<bf16> for Halves<'_> {
    fn rows(&self) -> usize {
        self.matrix.rows
    }

    fn depth(&self) -> usize {
        PARTS * self.matrix.depth.next_multiple_of(STEP)
    }

    fn runs_along(&self) -> bool {
        self.matrix.depth_stride == 1
    }

    fn pack(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [bf16]) {
        debug_assert!(depth.start.is_multiple_of(PARTS * STEP) && depth.end.is_multiple_of(PARTS * STEP));
        let depth = depth.start / PARTS..depth.end / PARTS;
        if panel.width == 1 {
            self.split_lines(rows, depth, out);
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
        let (matrix, long) = (self.matrix, PARTS * depth.len());
        let most = PANELS * panel.width;
        scratch::with(PARTS * STEP * most, |runs: &mut [bf16]| {
            for first in (0..rows.len()).step_by(most) {
                let here = most.min(rows.len() - first);
                let padded = panel.rows(here);
                let runs = &mut runs[..PARTS * STEP * padded];
                for start in depth.clone().step_by(STEP) {
                    let lines = STEP.min(matrix.depth.saturating_sub(start));
                    let from = matrix.offset + rows.start + first + start * matrix.depth_stride;
                    let form = Form { count: lines, len: here, long: padded, chunk: padded };
                    self.split(from, matrix.depth_stride, form, runs);
                    let count = [STEP / panel.group, padded / panel.width];
                    for part in 0..PARTS {
                        let at = first * long + (PARTS * (start - depth.start) + part * STEP) * panel.width;
                        let (runs, out) = (&runs[part * padded..], &mut out[at..]);
                        panel.interleave_across(runs, PARTS * padded, count, panel.width * long, out);
                    }
                }
            }
        });
    }

    /// Packs when the depth runs along memory: the rows of a panel, then interleaved.
    fn pack_along(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [bf16]) {
        let long = PARTS * depth.len();
        scratch::with(panel.width * long, |lines: &mut [bf16]| {
            let firsts = rows.clone().step_by(panel.width);
            for (first, out) in firsts.zip(out.chunks_exact_mut(panel.width * long)) {
                self.split_lines(first..rows.end.min(first + panel.width), depth.clone(), lines);
                panel.interleave(lines, long, long, out);
            }
        });
    }

    /// Writes some of a few rows, the parts of each step one after the other, and zeros for rows that are not there.
    fn split_lines(&self, rows: Range<usize>, depth: Range<usize>, parts: &mut [bf16]) {
        let matrix = self.matrix;
        let here = depth.end.min(matrix.depth).saturating_sub(depth.start);
        let from = matrix.offset + rows.start * matrix.row_stride + depth.start * matrix.depth_stride;
        let form = Form { count: rows.len(), len: here, long: depth.len(), chunk: STEP };
        if matrix.depth_stride == 1 {
            return self.split(from, matrix.row_stride, form, parts);
        }
        self.gather(from, [matrix.row_stride, matrix.depth_stride], form, parts);
    }

    /// Splits lines of neighbours, `stride` apart, from an element on.
    fn split(&self, from: usize, stride: usize, form: Form, parts: &mut [bf16]) {
        match self.matrix.view.data {
            Slice::F16(elements) => self.run(Split { lines: &elements[from..], stride, form, parts }),
            Slice::F32(elements) => self.run(Split { lines: &elements[from..], stride, form, parts }),
            _ => self.gather(from, [stride, 1], form, parts),
        }
    }

    /// Splits lines of whatever is stored, so far apart and each with its elements so far apart, from an element on.
    fn gather(&self, from: usize, [stride, step]: [usize; 2], form: Form, parts: &mut [bf16]) {
        scratch::with(form.count * form.len, |wide: &mut [f32]| {
            for (i, wide) in wide.chunks_exact_mut(form.len.max(1)).enumerate() {
                load(&self.matrix.view, from + i * stride, step, wide);
            }
            self.run(Split { lines: wide, stride: form.len, form, parts });
        });
    }

    fn run<T: Source>(&self, split: Split<T>) {
        if !dispatch(split) {
            self.finite.found();
        }
    }
}
