//! Walking a strided layout in row-major order, run by run, with an incremental index.

use crate::{Dims, Layout, MAX_RANK};

/// Rows of a transposed matrix that are read together: few enough that their ends stay in the first-level cache.
const GROUP: usize = 8;

/// Runs of up to this many elements are read group by group: 262 144 F32, each twice, took 1.17 ms of a Zen 4 run by run, and
/// take 0.39.
const SHORT: usize = 16;

/// Elements of a group, at least, for which finding it pays.
const EVEN: usize = 24;

/// Copies elements that follow one another on both sides: by pieces of 256 bytes, unless it is pages of them that lie alike in
/// their cache lines.
///
/// What the C library does with more at a time depends on where they lie: rows of 4 KiB that move by 12 bytes, which it leaves to
/// one instruction, took seven times as long on a core of Zen 4, two halves of rows that are joined twice as long.
#[inline(always)]
pub(crate) fn copy_run<E: Copy>(src: &[E], dst: &mut [E]) {
    const PIECE: usize = 256;
    const PAGE: usize = 4096;
    let apart = src.as_ptr().addr() ^ dst.as_ptr().addr();
    let (bytes, piece) = (size_of_val(src), PIECE / size_of::<E>());
    if bytes <= PIECE || (bytes >= PAGE && apart.is_multiple_of(64)) {
        return dst.copy_from_slice(src);
    }
    dst.chunks_mut(piece).zip(src.chunks(piece)).for_each(|(dst, src)| dst.copy_from_slice(src));
}

/// Consecutive elements that lie at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Position of the first one in the buffer.
    pub start: usize,
    /// Distance between neighbours; 0 repeats the first.
    pub stride: usize,
    /// How many.
    pub len: usize,
}

/// A layout with the dimensions merged that can be walked as one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    shape: Dims,
    strides: Dims,
    offset: usize,
}

impl Walk {
    pub fn new(layout: &Layout) -> Self {
        let (mut shape, mut strides, mut rank) = ([1; MAX_RANK], [0; MAX_RANK], 0);
        for (&size, &stride) in layout.shape.iter().zip(layout.strides.iter()).filter(|(size, _)| **size != 1) {
            if rank > 0 && strides[rank - 1] == size * stride {
                shape[rank - 1] *= size;
                strides[rank - 1] = stride;
            } else {
                (shape[rank], strides[rank]) = (size, stride);
                rank += 1;
            }
        }
        let dims = |sizes: &[usize]| Dims::new(sizes).expect("merging does not raise the rank");
        let rank = rank.max(1);
        Self { shape: dims(&shape[..rank]), strides: dims(&strides[..rank]), offset: layout.offset }
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.count()
    }

    /// The whole layout as one run, where it is one.
    pub fn single_run(&self) -> Option<Run> {
        (self.shape.len() == 1).then(|| Run { start: self.offset, stride: self.strides[0], len: self.shape[0] })
    }

    /// Whether each element lies behind the one before.
    pub fn ascends(&self) -> bool {
        let inner = self.shape.iter().zip(self.strides.iter()).skip(1).map(|(size, stride)| size * stride);
        self.strides.iter().all(|&stride| stride > 0) && self.strides.iter().zip(inner).all(|(&s, next)| s >= next)
    }

    /// Elements `at..at + len`, where they are one run.
    pub fn run(&self, at: usize, len: usize) -> Option<Run> {
        if let Some(run) = self.single_run() {
            return Some(Run { start: run.start + at * run.stride, len, ..run });
        }
        let (row, stride) = (self.row(), self.stride());
        (!self.shape.contains(&0) && at % row + len <= row).then(|| Run {
            start: self.locate(at / row).1 + at % row * stride,
            stride,
            len,
        })
    }

    /// Elements of the longest runs.
    pub fn row(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }

    /// Distance between the elements of a run.
    pub fn stride(&self) -> usize {
        self.strides[self.strides.len() - 1]
    }

    /// Elements of as many rows as lie evenly apart.
    pub fn even(&self) -> usize {
        let inner = self.shape.len() - 1;
        if inner > 0 { self.row() * self.shape[inner - 1] } else { self.row() }
    }

    /// Whether rows are repeated, one after the other.
    pub fn repeats(&self) -> bool {
        let inner = self.shape.len() - 1;
        inner > 0 && self.strides[inner - 1] == 0
    }

    /// Where the row of `len` elements at `at` begins, and how far apart from it the next one, for a `len` that runs consist of.
    pub fn rows(&self, at: usize, len: usize) -> (usize, usize) {
        let (row, inner) = (self.row(), self.shape.len() - 1);
        let start = self.locate(at / row).1 + at % row * self.stride();
        (start, if inner > 0 && len == row { self.strides[inner - 1] } else { len * self.stride() })
    }

    /// Calls `f` for the runs that make up elements `at..at + len`.
    #[inline]
    pub fn for_each_run(&self, at: usize, len: usize, mut f: impl FnMut(Run)) {
        let inner = self.shape.len() - 1;
        let (row, stride) = (self.shape[inner], self.strides[inner]);
        if len == 0 {
            return;
        }
        if inner == 0 {
            return f(Run { start: self.offset + at * stride, stride, len });
        }
        let (mut index, mut row_start) = self.locate(at / row);
        let (mut column, mut left) = (at % row, len);
        loop {
            let n = left.min(row - column);
            f(Run { start: row_start + column * stride, stride, len: n });
            left -= n;
            if left == 0 {
                return;
            }
            column = 0;
            row_start = self.next_row(&mut index, row_start);
        }
    }

    /// Calls `f(run, rows, step)` for the groups of rows that make up elements `at..at + len`: whole ones which begin `step` apart, and
    /// what is left of one at both ends.
    #[inline(always)]
    pub fn for_each_group(&self, at: usize, len: usize, mut f: impl FnMut(Run, usize, usize)) {
        let (row, rank) = (self.row(), self.shape.len());
        let (mut at, end) = (at, at + len);
        while at < end {
            let (index, start) = self.locate(at / row);
            let (column, stride) = (at % row, self.strides[rank - 1]);
            let whole = if column > 0 { 0 } else { (end - at) / row };
            let (rows, step) = match whole {
                0 => (1, 0),
                _ if rank == 1 => (1, 0),
                _ => (whole.min(self.shape[rank - 2] - index[rank - 2]), self.strides[rank - 2]),
            };
            let len = (row - column).min(end - at);
            f(Run { start: start + column * stride, stride, len }, rows, step);
            at += rows * len;
        }
    }

    /// Copies elements `at..at + dst.len()` of `src` in this layout's order.
    pub fn read<E: Copy>(&self, src: &[E], at: usize, dst: &mut [E]) {
        let (row, rank) = (self.shape[self.shape.len() - 1], self.shape.len());
        if rank == 1 || self.strides[rank - 1] <= 1 || self.strides[rank - 2] != 1 || row == 0 {
            return self.read_runs(src, at, dst);
        }
        // A transposed matrix: the rows of a group are neighbours in memory, so each cache line serves them all.
        let head = at.next_multiple_of(row).min(at + dst.len()) - at;
        let (first, mut rest) = dst.split_at_mut(head);
        self.read_runs(src, at, first);
        let mut at = at + head;
        while rest.len() >= row {
            let (index, start) = self.locate(at / row);
            let rows = (self.shape[rank - 2] - index[rank - 2]).min(GROUP).min(rest.len() / row);
            let (group, later) = rest.split_at_mut(rows * row);
            for column in 0..row {
                let column_start = start + column * self.strides[rank - 1];
                for (k, &v) in src[column_start..][..rows].iter().enumerate() {
                    group[k * row + column] = v;
                }
            }
            (rest, at) = (later, at + rows * row);
        }
        self.read_runs(src, at, rest);
    }

    fn read_runs<E: Copy>(&self, src: &[E], at: usize, dst: &mut [E]) {
        if self.row() <= SHORT && self.even() >= EVEN {
            return self.read_short_runs(src, at, dst);
        }
        let mut filled = 0;
        self.for_each_run(at, dst.len(), |run| {
            let dst = &mut dst[filled..][..run.len];
            filled += run.len;
            match run.stride {
                0 if run.len > 0 => dst.fill(src[run.start]),
                1 => copy_run(&src[run.start..][..run.len], dst),
                stride => dst.iter_mut().zip(src[run.start..].iter().step_by(stride.max(1))).for_each(|(d, &s)| *d = s),
            }
        });
    }

    /// To find each of the runs by itself takes longer than reading it.
    fn read_short_runs<E: Copy>(&self, src: &[E], at: usize, dst: &mut [E]) {
        let mut filled = 0;
        self.for_each_group(at, dst.len(), |Run { start, stride, len }, rows, step| {
            let group = &mut dst[filled..][..rows * len];
            filled += group.len();
            for (i, row) in group.chunks_exact_mut(len).enumerate() {
                let src = &src[start + i * step..];
                row.iter_mut().enumerate().for_each(|(column, to)| *to = src[column * stride]);
            }
        });
    }

    /// Index and start of row `row`, counted over all outer dimensions.
    fn locate(&self, mut row: usize) -> ([usize; MAX_RANK], usize) {
        let mut index = [0; MAX_RANK];
        let mut start = self.offset;
        for axis in (1..self.shape.len() - 1).rev() {
            index[axis] = row % self.shape[axis];
            row /= self.shape[axis];
            start += index[axis] * self.strides[axis];
        }
        if self.shape.len() > 1 {
            index[0] = row;
            start += row * self.strides[0];
        }
        (index, start)
    }

    #[inline]
    fn next_row(&self, index: &mut [usize; MAX_RANK], mut start: usize) -> usize {
        for axis in (0..self.shape.len() - 1).rev() {
            index[axis] += 1;
            start += self.strides[axis];
            if index[axis] < self.shape[axis] {
                break;
            }
            start -= self.shape[axis] * self.strides[axis];
            index[axis] = 0;
        }
        start
    }
}
