//! What a product is made of: anything that can be packed into panels, matrices first of all.

use crate::View;
use crate::load::load;
use crate::num::Real;
use crate::scratch;
use std::ops::Range;

/// One side of a product: `rows` vectors of length `depth` along which the product sums.
///
/// For the left side the rows are the rows of the matrix, for the right side its columns.
pub(crate) trait Operand<T>: Sync {
    /// Number of vectors.
    fn rows(&self) -> usize;
    /// Length of each.
    fn depth(&self) -> usize;
    /// Writes a block as panels of `width` rows: element `(r, d)` of a panel lies at `d * width + r`.
    ///
    /// Rows past the last one of the range are filled with zeros.
    fn pack(&self, rows: Range<usize>, depth: Range<usize>, width: usize, out: &mut [T]);
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

impl<T: Real> Operand<T> for Matrix<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn pack(&self, rows: Range<usize>, depth: Range<usize>, width: usize, out: &mut [T]) {
        if depth.is_empty() {
            return;
        }
        let start = self.offset + rows.start * self.row_stride + depth.start * self.depth_stride;
        if self.row_stride == 1 && self.rows > 1 {
            self.pack_across(start, rows.len(), depth.len(), width, out);
        } else {
            self.pack_along(start, rows.len(), depth.len(), width, out);
        }
    }
}

impl Matrix<'_> {
    /// Packs when neighbouring rows are neighbours in memory: one run of all rows per step of the depth.
    fn pack_across<T: Real>(&self, start: usize, rows: usize, depth: usize, width: usize, out: &mut [T]) {
        let padded = rows.next_multiple_of(width);
        scratch::with(padded, |run: &mut [T]| {
            run[rows..].fill(T::default());
            for d in 0..depth {
                load(&self.view, start + d * self.depth_stride, 1, &mut run[..rows]);
                for (panel, part) in run.chunks_exact(width).enumerate() {
                    let at = (panel * depth + d) * width;
                    out[at..at + width].copy_from_slice(part);
                }
            }
        });
    }

    /// Packs when the depth runs along memory: the rows of a panel one by one, then interleaved.
    fn pack_along<T: Real>(&self, start: usize, rows: usize, depth: usize, width: usize, out: &mut [T]) {
        scratch::with(width * depth, |lines: &mut [T]| {
            for (panel, out) in out.chunks_exact_mut(width * depth).take(rows.div_ceil(width)).enumerate() {
                let first = panel * width;
                for (r, line) in lines.chunks_exact_mut(depth).enumerate() {
                    if first + r < rows {
                        load(&self.view, start + (first + r) * self.row_stride, self.depth_stride, line);
                    } else {
                        line.fill(T::default());
                    }
                }
                interleave(lines, depth, depth, width, out);
            }
        });
    }
}

/// Turns `width` lines of `depth` elements, `stride` apart, into one panel.
pub(crate) fn interleave<T: Real>(lines: &[T], stride: usize, depth: usize, width: usize, out: &mut [T]) {
    let squares = width / 4 * 4;
    for r in (0..squares).step_by(4) {
        let rows: [&[T]; 4] = std::array::from_fn(|i| &lines[(r + i) * stride..][..depth]);
        let whole = depth / 4 * 4;
        for d in (0..whole).step_by(4) {
            let square: [&[T; 4]; 4] = rows.map(|row| row[d..].first_chunk().expect("four columns are left"));
            for i in 0..4 {
                let to: &mut [T; 4] = out[(d + i) * width + r..].first_chunk_mut().expect("four rows are left");
                *to = [square[0][i], square[1][i], square[2][i], square[3][i]];
            }
        }
        for d in whole..depth {
            for (i, row) in rows.iter().enumerate() {
                out[d * width + r + i] = row[d];
            }
        }
    }
    for r in squares..width {
        for (d, &value) in lines[r * stride..][..depth].iter().enumerate() {
            out[d * width + r] = value;
        }
    }
}

/// Elements found by adding an offset of the row to an offset of the depth: patches of padded images, kernels.
#[derive(Clone, Copy)]
pub(crate) struct Gathered<'a, T> {
    /// The elements, already in the computing type.
    pub data: &'a [T],
    /// Offset of each row.
    pub rows: &'a [usize],
    /// Offset of each step along the depth.
    pub depth: &'a [usize],
}

impl<T: Real> Operand<T> for Gathered<'_, T> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn depth(&self) -> usize {
        self.depth.len()
    }

    fn pack(&self, rows: Range<usize>, depth: Range<usize>, width: usize, out: &mut [T]) {
        let (rows, depth) = (&self.rows[rows], &self.depth[depth]);
        for (rows, panel) in rows.chunks(width).zip(out.chunks_exact_mut(width * depth.len())) {
            let runs = Run::all(rows);
            if runs.len() * 2 <= rows.len() || runs.len() == 1 {
                self.pack_across(&runs, rows.len(), depth, width, panel);
            } else {
                self.pack_along(rows, depth, width, panel);
            }
        }
    }
}

/// Consecutive offsets.
struct Run {
    at: usize,
    first: usize,
    len: usize,
}

impl Run {
    fn all(offsets: &[usize]) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for (at, &offset) in offsets.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if run.first + run.len == offset => run.len += 1,
                _ => runs.push(Self { at, first: offset, len: 1 }),
            }
        }
        runs
    }
}

impl<T: Real> Gathered<'_, T> {
    /// Packs rows that are neighbours in memory.
    fn pack_across(&self, runs: &[Run], rows: usize, depth: &[usize], width: usize, panel: &mut [T]) {
        for (&offset, column) in depth.iter().zip(panel.chunks_exact_mut(width)) {
            for run in runs {
                column[run.at..run.at + run.len].copy_from_slice(&self.data[offset + run.first..][..run.len]);
            }
            column[rows..].fill(T::default());
        }
    }

    /// Packs rows whose depth runs along memory.
    fn pack_along(&self, rows: &[usize], depth: &[usize], width: usize, panel: &mut [T]) {
        let runs = Run::all(depth);
        scratch::with(width * depth.len(), |lines: &mut [T]| {
            for (r, line) in lines.chunks_exact_mut(depth.len()).enumerate() {
                let Some(&row) = rows.get(r) else {
                    line.fill(T::default());
                    continue;
                };
                for run in &runs {
                    line[run.at..run.at + run.len].copy_from_slice(&self.data[row + run.first..][..run.len]);
                }
            }
            interleave(lines, depth.len(), depth.len(), width, panel);
        });
    }
}
