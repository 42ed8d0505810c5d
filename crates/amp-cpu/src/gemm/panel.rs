//! Panels: packed vectors, side by side, in the order in which a tile kernel reads them.

use super::kernel::Multiply;
use crate::scratch::{same_bytes, same_bytes_mut};

/// Form of a packed block.
///
/// A panel holds `width` vectors, `group` neighbours along the depth at a time: element `(r, d)` of a panel lies at
/// `(d / group * width + r) * group + d % group`. The depth is padded to a multiple of `step`, the vectors to a
/// multiple of `width`, both with zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel {
    /// Vectors of a panel.
    pub width: usize,
    /// Elements of one vector that lie together.
    pub group: usize,
    /// What the depth is padded to a multiple of; itself a multiple of `group`.
    pub step: usize,
}

impl Panel {
    /// Depth with its padding.
    pub(crate) fn depth(&self, depth: usize) -> usize {
        depth.next_multiple_of(self.step)
    }

    /// Vectors with their padding.
    pub(crate) fn rows(&self, rows: usize) -> usize {
        rows.next_multiple_of(self.width)
    }

    /// Elements of a packed block.
    pub(crate) fn len(&self, rows: usize, depth: usize) -> usize {
        self.rows(rows) * self.depth(depth)
    }

    /// Turns `width` lines of the padded depth, `stride` apart, into one panel.
    pub(crate) fn weave<E: Multiply>(&self, lines: &[E], stride: usize, depth: usize, out: &mut [E]) {
        let Self { width, group, .. } = *self;
        match group * size_of::<E>() {
            64 => interleave::<[u32; 16]>(same_bytes(lines), stride / group, depth / group, width, same_bytes_mut(out)),
            4 if group == 2 => interleave::<u32>(same_bytes(lines), stride / 2, depth / 2, width, same_bytes_mut(out)),
            _ => {
                debug_assert_eq!(group, 1);
                interleave(lines, stride, depth, width, out);
            }
        }
    }

    /// Turns `group` lines of neighbouring depths, `stride` apart, into that part of one panel.
    pub(crate) fn weave_across<E: Multiply>(&self, lines: &[E], stride: usize, out: &mut [E]) {
        let Self { width, group, .. } = *self;
        match group {
            1 => out.copy_from_slice(&lines[..width]),
            2 => {
                let (even, odd) = (&lines[..width], &lines[stride..][..width]);
                for ((to, &even), &odd) in out.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd) {
                    *to = [even, odd];
                }
            }
            _ => interleave(lines, stride, width, group, out),
        }
    }
}

/// Transposes `width` lines of `depth` elements, `stride` apart.
pub(crate) fn interleave<T: Copy>(lines: &[T], stride: usize, depth: usize, width: usize, out: &mut [T]) {
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
