//! Selecting, gathering and adding by index. The caller has checked the indices.

use crate::convert::Compute;
use crate::num::{Num, in_num};
use crate::parallel;
use crate::reduce::converted;
use crate::span::{Cut, Span};
use crate::split::{PARALLEL, for_chunks};
use crate::{DType, Storage, View};

/// Least and greatest of the I64 elements of `index`; `None` when there are none.
pub fn index_bounds(index: &View) -> Option<(i64, i64)> {
    indices(index).into_iter().fold(None, |range, i| {
        let (least, greatest) = range.unwrap_or((i, i));
        Some((least.min(i), greatest.max(i)))
    })
}

/// The elements of an I64 view, in row-major order.
pub fn indices(index: &View) -> Vec<i64> {
    let span = Span::row_major(index);
    let mut values = vec![0; span.len()];
    span.load(0, &mut values);
    values
}

/// The slices of `x` at positions `index` of `axis`, in `x`'s precision.
///
/// PyTorch: `index_select`; an embedding is one with axis 0.
pub fn index_select(x: &View, axis: usize, index: &[i64]) -> Storage {
    let cut = Cut::new(&x.layout.shape, axis);
    let span = Span::row_major(x);
    let mut out = Storage::unwritten(x.logical, cut.outer * index.len() * cut.inner);
    in_num!(x.logical, A => {
        let rows = (4096 / cut.inner.max(1)).max(1);
        for_chunks(&mut out, rows * cut.inner, |piece, mut part| {
            let mut row = vec![<A as Num>::ZERO; cut.inner];
            for j in 0..part.len() / cut.inner {
                let number = piece * rows + j;
                let (outer, at) = (number / index.len(), index[number % index.len()] as usize);
                span.load((outer * cut.len + at) * cut.inner, &mut row);
                A::narrow(&row, &mut part.range(j * cut.inner, cut.inner));
            }
        });
    });
    out
}

/// `out[i][j][k] = x[i][index[i][j][k]][k]` for axis 1, and likewise for others; in `x`'s precision.
///
/// PyTorch: `gather`. `index` (I64) may be smaller than `x` along the other axes.
pub fn gather(x: &View, axis: usize, index: &View) -> Storage {
    let positions = Positions::new(x, axis, index);
    in_num!(x.logical, A => {
        let span = Span::row_major(x);
        let mut values = vec![<A as Num>::ZERO; positions.index.len()];
        parallel::for_each_chunk_mut(&mut values, PARALLEL, &|chunk, values| {
            for (i, value) in values.iter_mut().enumerate() {
                let mut one = [A::ZERO];
                span.load(positions.of(chunk * PARALLEL + i), &mut one);
                *value = one[0];
            }
        });
        converted(values, x.logical)
    })
}

/// `base`, with `src[i][j][k]` added at `[i][index[i][j][k]][k]` for axis 1, and likewise for others.
///
/// PyTorch: `scatter_add`. Sums run in F32 (F64, I64) in row-major order of `src`, so they are deterministic, and are
/// rounded to `out` once.
pub fn scatter_add(base: &View, axis: usize, index: &View, src: &View, out: DType) -> Storage {
    let positions = Positions::new(base, axis, index);
    in_num!(out, A => {
        let mut sums = vec![<A as Num>::ZERO; base.layout.count()];
        Span::row_major(base).load(0, &mut sums);
        let rank = src.layout.shape.len();
        // `src` may be larger than `index`: only the part of its shape counts.
        let source = crate::Layout { shape: index.layout.shape, ..*src.layout };
        let source = View { layout: &source, ..*src };
        let span = Span::new(&source, 0..rank);
        let mut values = vec![A::ZERO; positions.index.len()];
        span.load(0, &mut values);
        for (i, value) in values.into_iter().enumerate() {
            let at = positions.of(i);
            sums[at] = sums[at].add(value);
        }
        converted(sums, out)
    })
}

/// Zeros with `len` slices along `axis`, and slice `j` of `src` added to slice `index[j]`.
///
/// The gradient of [`index_select`]. Sums run in F32 (F64) in the order of `index`, whatever the number of threads.
pub fn index_add(len: usize, axis: usize, index: &[i64], src: &View, out: DType) -> Storage {
    let cut = Cut::new(&src.layout.shape, axis);
    let span = Span::row_major(src);
    let mut order: Vec<usize> = (0..index.len()).collect();
    order.sort_by_key(|&j| index[j]);
    let mut storage = Storage::zeros(out, cut.outer * len * cut.inner);
    in_num!(out, A => {
        for_chunks(&mut storage, cut.inner, |row, mut part| {
            let (outer, target) = (row / len, (row % len) as i64);
            let first = order.partition_point(|&j| index[j] < target);
            let (mut sum, mut slice) = (vec![<A as Num>::ZERO; cut.inner], vec![A::ZERO; cut.inner]);
            for &j in order[first..].iter().take_while(|&&j| index[j] == target) {
                span.load((outer * cut.len + j) * cut.inner, &mut slice);
                sum.iter_mut().zip(&slice).for_each(|(s, &x)| *s = s.add(x));
            }
            A::narrow(&sum, &mut part);
        });
    });
    storage
}

/// Where in the row-major order of a view the elements named by an index tensor lie.
struct Positions {
    index: Vec<i64>,
    shape: crate::Dims,
    steps: crate::Dims,
    step: usize,
}

impl Positions {
    fn new(x: &View, axis: usize, index: &View) -> Self {
        let mut steps = x.layout.shape.contiguous_strides();
        let step = steps.get(axis).copied().unwrap_or(0);
        if axis < steps.len() {
            steps[axis] = 0;
        }
        Self { index: indices(index), shape: index.layout.shape, steps, step }
    }

    fn of(&self, i: usize) -> usize {
        let (mut rest, mut position) = (i, self.index[i] as usize * self.step);
        for (&size, &step) in self.shape.iter().zip(self.steps.iter()).rev() {
            position += rest % size * step;
            rest /= size;
        }
        position
    }
}
