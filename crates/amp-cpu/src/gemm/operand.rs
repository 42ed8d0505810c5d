//! What a product is made of: anything that can be packed into panels, matrices first of all.

use super::kernel::Multiply;
use super::panel::Panel;
use crate::View;
use crate::load::{prefetch_range, prefetches_lines};
use crate::scratch;
use std::ops::Range;

/// Lines that are prefetched.
const AHEAD: usize = 12;

/// One side of a product: `rows` vectors of length `depth` along which the product sums.
///
/// For the left side the rows are the rows of the matrix, for the right side its columns.
pub(crate) trait Operand<E>: Sync {
    /// Number of vectors.
    fn rows(&self) -> usize;
    /// Length of each.
    fn depth(&self) -> usize;
    /// Writes a block as panels, which `out` has the size of.
    fn pack(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [E]);

    /// Whether vectors run along memory, in whatever type.
    fn runs_along(&self) -> bool {
        false
    }

    /// How often lines are packed anew, strip by strip, before packing all of them in advance costs less.
    fn repeats(&self) -> usize {
        1
    }

    /// Where the elements lie, if vectors run along memory in the type that panels are made of.
    fn lines(&self) -> Option<Lines<'_, E>> {
        None
    }
}

/// Vectors that run along memory, the first one from the beginning of `elements` on.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a, E> {
    /// The elements.
    pub elements: &'a [E],
    /// Distance between vectors.
    pub stride: usize,
}

/// A strided matrix of any stored precision.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    /// Where the elements are and what they count as.
    pub view: View<'a>,
    /// Position of the first element.
    pub offset: usize,
    /// Number of vectors.
    pub rows: usize,
    /// Length of each.
    pub depth: usize,
    /// Distance between vectors.
    pub row_stride: usize,
    /// Distance along a vector.
    pub depth_stride: usize,
}

impl<E: Multiply> Operand<E> for Matrix<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn pack(&self, rows: Range<usize>, depth: Range<usize>, panel: Panel, out: &mut [E]) {
        if depth.is_empty() {
            return;
        }
        let start = self.offset + rows.start * self.row_stride + depth.start * self.depth_stride;
        if panel.width == 1 {
            self.pack_lines(start, rows.len(), depth.len(), panel.depth(depth.len()), out);
        } else if self.row_stride == 1 && self.rows > 1 {
            self.pack_across(start, rows.len(), depth.len(), panel, out);
        } else {
            self.pack_along(start, rows.len(), depth.len(), panel, out);
        }
    }

    fn runs_along(&self) -> bool {
        self.depth_stride == 1
    }

    /// Two threads of a Xeon take 1.03 ms for 1024³ of F32 by strips in four blocks, where rounding in advance took 1.21, and
    /// 10.2 for 2048³ in eight, where it took 9.0; two of Zen 5 5.9 for 2048 × 1536 by 1536 × 384 of F16 in six, where it takes 5.5.
    fn repeats(&self) -> usize {
        if E::stored(&self.view).is_some() { 8 } else { 5 }
    }

    fn lines(&self) -> Option<Lines<'_, E>> {
        let elements = E::stored(&self.view).filter(|_| self.depth_stride == 1)?;
        Some(Lines { elements: elements.get(self.offset..)?, stride: self.row_stride })
    }
}

impl Matrix<'_> {
    /// How many lines there are in memory, how long and how far apart.
    pub(super) fn along_memory(&self) -> (usize, usize, usize) {
        match self.row_stride {
            1 => (self.depth, self.rows, self.depth_stride),
            stride => (self.rows, self.depth, stride),
        }
    }

    /// Packs rows as lines of their padded depth.
    fn pack_lines<E: Multiply>(&self, start: usize, rows: usize, depth: usize, long: usize, out: &mut [E]) {
        let gapless = self.depth_stride == 1 && self.row_stride == depth && long == depth;
        let (lines, len) = if gapless { (1, rows * depth) } else { (rows, depth) };
        let prefetches = prefetches_lines();
        for (line, out) in out.chunks_exact_mut(len.next_multiple_of(long)).take(lines).enumerate() {
            let from = start + line * self.row_stride;
            if prefetches {
                prefetch_range(self.view.data, from + AHEAD * self.row_stride, len);
            }
            E::load(&self.view, from, self.depth_stride, &mut out[..len]);
            out[len..].fill(E::default());
        }
    }

    /// Packs when neighbouring rows are neighbours in memory: runs of some panels' rows, some steps of the depth at a time.
    fn pack_across<E: Multiply>(&self, start: usize, rows: usize, depth: usize, panel: Panel, out: &mut [E]) {
        /// Panels that are written side by side.
        const PANELS: usize = 8;
        /// Groups that are converted at a time.
        const GROUPS: usize = 8;
        let Panel { width, group, .. } = panel;
        let long = panel.depth(depth);
        let stored = E::stored(&self.view);
        scratch::with(PANELS * width * GROUPS * group, |runs: &mut [E]| {
            for first in (0..rows).step_by(PANELS * width) {
                let here = (PANELS * width).min(rows - first);
                let padded = panel.rows(here);
                let start = start + first;
                let mut d = 0;
                if let Some(elements) = stored.filter(|_| here == padded) {
                    d = depth / group * group;
                    let lines = &elements[start..];
                    let count = [d / group, here / width];
                    panel.interleave_across(lines, self.depth_stride, count, width * long, &mut out[first * long..]);
                } else if here == padded {
                    let whole = depth / group * group;
                    let lines = self.view.data.range(start, self.view.data.len() - start);
                    let count = [whole / group, here / width];
                    let out = &mut out[first * long..];
                    let interleaved = E::interleave_rounded(panel, lines, self.depth_stride, count, width * long, out);
                    d = if interleaved { whole } else { 0 };
                }
                while d < long {
                    let steps = (GROUPS * group).min(long - d);
                    for (d, run) in (d..d + steps).zip(runs.chunks_exact_mut(padded)) {
                        let here = if d < depth { here } else { 0 };
                        E::load(&self.view, start + d * self.depth_stride, 1, &mut run[..here]);
                        run[here..].fill(E::default());
                    }
                    let count = [steps / group, padded / width];
                    panel.interleave_across(runs, padded, count, width * long, &mut out[first * long + d * width..]);
                    d += steps;
                }
            }
        });
    }

    /// Packs when the depth runs along memory: the rows of a panel one by one, then interleaved.
    fn pack_along<E: Multiply>(&self, start: usize, rows: usize, depth: usize, panel: Panel, out: &mut [E]) {
        let (width, long) = (panel.width, panel.depth(depth));
        let stored = E::stored(&self.view).filter(|_| self.depth_stride == 1);
        let gapless = self.depth_stride == 1 && self.row_stride == depth && long == depth;
        scratch::with(width * long, |lines: &mut [E]| {
            for (first, out) in (0..rows).step_by(width).zip(out.chunks_exact_mut(width * long)) {
                if let Some(elements) = stored.filter(|_| first + width <= rows) {
                    panel.interleave_whole(&elements[start + first * self.row_stride..], self.row_stride, depth, out);
                    continue;
                }
                if gapless {
                    // One load instead of many short ones.
                    let (lines, rest) = lines.split_at_mut(width.min(rows - first) * long);
                    E::load(&self.view, start + first * self.row_stride, 1, lines);
                    rest.fill(E::default());
                } else {
                    for (row, line) in (first..).zip(lines.chunks_exact_mut(long)) {
                        let here = if row < rows { depth } else { 0 };
                        E::load(&self.view, start + row * self.row_stride, self.depth_stride, &mut line[..here]);
                        line[here..].fill(E::default());
                    }
                }
                panel.interleave(lines, long, long, out);
            }
        });
    }
}
