//! Products of F16 as products of BF16 of twice the depth.
//!
//! An F16 number has 11 significant bits and BF16 8: `x = high + low`, `high` being `x` rounded to BF16 and `low` the rest,
//! which has three bits at most and is no less than 2^-24, so both are exact. Each 32 steps of the depth (a tile's) lie as high
//! parts and then low ones, and tiles sum `low·high + high·high + high·low`, of a depth of up to [`SHORT`] `low·low` too.
//!
//! Infinite numbers have no such parts (`∞·low` would be no number wherever `low` is zero): operands are read once in advance,
//! and where one is infinite or no number F32 arithmetic takes over.
//!
//! **Error.** `|low| <= 2^-8·|x|`, so leaving out `low·low` costs at most `2^-16·Σ|a·b|`, as much as 256 roundings of the
//! sum: of a few terms that cancel it was most of the error of a result ([33, 2] · [2, 65], off by a unit in its last place),
//! of more than [`SHORT`] it is small against what F32 arithmetic may cost. The sum of `3n` or `4n` exact products costs as
//! many times `2^-24·Σ|a·b|·(1 + 2^-6)`. No product is subnormal.

mod tile;

use crate::convert::Compute;
use crate::gemm::cut::Cut;
use crate::gemm::kernel::{Kernel as Tiles, Multiply};
use crate::gemm::operand::{Matrix, Operand};
use crate::gemm::panel::Panel;
use crate::gemm::product::{Sink, Threads, product_with};
use crate::load::load;
use crate::output::prefetch;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::{DType, Slice, SliceMut, View, parallel, scratch};
use half::{bf16, f16};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Steps of the depth whose parts follow one another.
const STEP: usize = super::STEP;
/// Parts of a number.
const PARTS: usize = 2;
/// The longest depth of which all products are summed.
const SHORT: usize = 128;
/// Lines that memory is asked for in advance.
const AHEAD: usize = 12;
/// Panels that are written side by side.
const PANELS: usize = 8;

/// Whether the products of two operands are those of halves: both count as F16 and the machine multiplies BF16 by AMX.
pub(crate) fn multiplies(a: &View<'_>, b: &View<'_>) -> bool {
    a.logical == DType::F16 && b.logical == DType::F16 && Level::current() == Level::Amx
}

/// Computes `a · bᵀ` of F16 row by row into `sink`.
pub(crate) fn product(a: &Matrix, b: &Matrix, sink: &dyn Sink<f32>, threads: Threads) {
    if !is_finite(a, threads) || !is_finite(b, threads) {
        return f32::product(a, b, sink, threads);
    }
    product_with(kernel(a.depth), &Halves(a), &Halves(b), sink, threads);
}

/// Whether all numbers of a matrix are finite, rounded to F16.
fn is_finite(matrix: &Matrix, threads: Threads) -> bool {
    /// Elements that are read at a time, and those of a task.
    const CHUNK: usize = 1024;
    const TASK: usize = 32 * CHUNK;
    let (lines, len, stride) = matrix.along_memory();
    let (lines, len) = if stride == len { (1, lines * len) } else { (lines, len) };
    let step = if matrix.row_stride == 1 { 1 } else { matrix.depth_stride };
    let cuts = len.div_ceil(TASK);
    let work = if threads == Threads::Many { lines * len } else { 0 };
    let finite = AtomicBool::new(true);
    let per_task = (TASK / len.max(1)).max(1);
    parallel::for_each(lines.div_ceil(per_task) * cuts, work, |task| {
        scratch::with(CHUNK, |wide: &mut [f32]| {
            let first = task / cuts * per_task;
            for line in first..lines.min(first + per_task) {
                let start = task % cuts * TASK;
                for from in (start..len.min(start + TASK)).step_by(CHUNK) {
                    let wide = &mut wide[..CHUNK.min(len - from)];
                    load(&matrix.view, matrix.offset + line * stride + from * step, step, wide);
                    if dispatch(Magnitude(wide)) >= f32::INFINITY.to_bits() {
                        return finite.store(false, Relaxed);
                    }
                }
            }
        });
    });
    finite.into_inner()
}

/// Bits of the largest absolute value, any that is no number being larger than all that are.
struct Magnitude<'a>(&'a [f32]);

impl Kernel for Magnitude<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self) -> u32 {
        self.0.iter().fold(0, |most, x| most.max(x.to_bits() & (u32::MAX >> 1)))
    }
}

/// The kernel for so many terms.
fn kernel(depth: usize) -> Tiles<bf16> {
    let cut = Cut { usual: PARTS * STEP * 4, longest: PARTS * STEP * 6, step: PARTS * STEP };
    let (tile, direct) = if depth > SHORT {
        (tile::tile::<false> as _, tile::direct::<false> as _)
    } else {
        (tile::tile::<true> as _, tile::direct::<true> as _)
    };
    Tiles { depth: cut, tile, direct: Some(direct), scattered: None, ..super::kernel() }
}

/// A matrix of F16 as its parts.
struct Halves<'a>(&'a Matrix<'a>);

impl Operand<bf16> for Halves<'_> {
    fn rows(&self) -> usize {
        self.0.rows
    }

    fn depth(&self) -> usize {
        PARTS * self.0.depth.next_multiple_of(STEP)
    }

    fn runs_along(&self) -> bool {
        self.0.depth_stride == 1
    }

    fn pack(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [bf16]) {
        debug_assert!(depth.start.is_multiple_of(PARTS * STEP) && depth.end.is_multiple_of(PARTS * STEP));
        let depth = depth.start / PARTS..depth.end / PARTS;
        if panel.width == 1 {
            self.split_lines(rows, depth, out);
        } else if self.0.row_stride == 1 && self.0.rows > 1 {
            self.pack_across(rows, depth, panel, out);
        } else {
            self.pack_along(rows, depth, panel, out);
        }
    }
}

impl Halves<'_> {
    /// Packs when neighbouring rows are neighbours in memory: 32 runs of some panels' rows at a time.
    fn pack_across(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [bf16]) {
        let (matrix, long) = (self.0, PARTS * depth.len());
        let most = PANELS * panel.width;
        scratch::with(PARTS * STEP * most, |runs: &mut [bf16]| {
            for first in (0..rows.len()).step_by(most) {
                let here = most.min(rows.len() - first);
                let padded = panel.rows(here);
                let runs = &mut runs[..PARTS * STEP * padded];
                for start in depth.clone().step_by(STEP) {
                    let lines = STEP.min(matrix.depth.saturating_sub(start));
                    let from = matrix.offset + rows.start + first + start * matrix.depth_stride;
                    split(&matrix.view, from, matrix.depth_stride, [lines, here], runs, [padded, padded]);
                    let count = [STEP / panel.group, padded / panel.width];
                    for part in 0..PARTS {
                        let at = first * long + (PARTS * (start - depth.start) + part * STEP) * panel.width;
                        let (runs, out) = (&runs[part * padded..], &mut out[at..]);
                        panel.weave_across(runs, PARTS * padded, count, panel.width * long, out);
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
                panel.weave(lines, long, long, out);
            }
        });
    }

    /// Writes some of a few rows, the parts of each step one after the other, and zeros for rows that are not there.
    fn split_lines(&self, rows: Range<usize>, depth: Range<usize>, parts: &mut [bf16]) {
        let matrix = self.0;
        let here = depth.end.min(matrix.depth).saturating_sub(depth.start);
        let from = matrix.offset + rows.start * matrix.row_stride + depth.start * matrix.depth_stride;
        if matrix.depth_stride == 1 {
            return split(&matrix.view, from, matrix.row_stride, [rows.len(), here], parts, [depth.len(), STEP]);
        }
        scratch::with(rows.len() * here, |wide: &mut [f32]| {
            for (i, wide) in wide.chunks_exact_mut(here.max(1)).enumerate() {
                load(&matrix.view, from + i * matrix.row_stride, matrix.depth_stride, wide);
            }
            dispatch(Split {
                lines: wide,
                stride: here,
                size: [rows.len(), here],
                parts,
                long: depth.len(),
                chunk: STEP,
            });
        });
    }
}

/// Splits lines of neighbours, `stride` apart, from an element of a view on; see [`Split`].
fn split(
    view: &View<'_>,
    from: usize,
    stride: usize,
    size @ [count, len]: [usize; 2],
    parts: &mut [bf16],
    [long, chunk]: [usize; 2],
) {
    match view.data {
        Slice::F16(elements) => dispatch(Split { lines: &elements[from..], stride, size, parts, long, chunk }),
        Slice::F32(elements) => dispatch(Split { lines: &elements[from..], stride, size, parts, long, chunk }),
        _ => scratch::with(count * len, |wide: &mut [f32]| {
            for (i, wide) in wide.chunks_exact_mut(len.max(1)).enumerate() {
                load(view, from + i * stride, 1, wide);
            }
            dispatch(Split { lines: wide, stride: len, size, parts, long, chunk });
        }),
    }
}

/// Splits `size` (lines, elements of each) finite numbers, rounded to F16: of each line, padded to `long`, the high parts of
/// each chunk and then its low parts. Lines that are not there are zeros.
struct Split<'a, T> {
    lines: &'a [T],
    stride: usize,
    size: [usize; 2],
    parts: &'a mut [bf16],
    long: usize,
    chunk: usize,
}

impl<T: Source> Kernel for Split<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { lines, stride, size: [count, len], parts, long, chunk } = self;
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
                        halve(T::wide::<S>(whole), high, low);
                    } else {
                        let mut padded = [T::default(); STEP];
                        padded[..from.len()].copy_from_slice(from);
                        halve(T::wide::<S>(&padded), high, low);
                    }
                }
            }
        }
    }
}

/// Splits some numbers.
#[inline(always)]
fn halve(from: [f32; STEP], highs: &mut [bf16; STEP], lows: &mut [bf16; STEP]) {
    for ((x, high), low) in from.iter().zip(highs).zip(lows) {
        let bits = x.to_bits();
        // To the nearest, to even where two are: the carry of what is cut off.
        let rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
        let rest = x - f32::from_bits(rounded);
        *high = bf16::from_bits((rounded >> 16) as u16);
        *low = bf16::from_bits((rest.to_bits() >> 16) as u16);
    }
}

/// What numbers are stored as.
trait Source: Copy + Default {
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
