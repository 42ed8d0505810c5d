//! Selecting, gathering and adding by index. The caller has checked the indices.

#[cfg(test)]
mod tests;

use crate::cache::{Pooled, take};
use crate::convert::{Compute, each_dtype};
use crate::line::{Cut, Span, ascending};
use crate::num::{Num, in_num};
use crate::parallel;
use crate::reduce::converted;
use crate::split::for_chunks;
use crate::{Block, DType, Slice, Storage, View};

/// Elements of one piece of work.
const WORK: usize = 1 << 14;

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
    let rows = Rows { cut, index, start: x.layout.offset };
    if x.layout.is_contiguous() && x.data.dtype() == x.logical {
        return each_dtype!(x.data, Slice, v => rows.copy(v).into());
    }
    let span = Span::row_major(x);
    let mut out = Storage::unwritten(x.logical, cut.outer * index.len() * cut.inner);
    in_num!(x.logical, A => {
        let rows = (4096 / cut.inner.max(1)).max(1);
        for_chunks(&mut out, rows * cut.inner, &|piece, mut part| {
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

/// Slices of a contiguous tensor that begins at `start`.
struct Rows<'a> {
    cut: Cut,
    index: &'a [i64],
    start: usize,
}

impl Rows<'_> {
    fn copy<T: Pooled + Copy + Send + Sync>(&self, x: &[T]) -> Block<T> {
        let Cut { outer, len, inner } = self.cut;
        let mut out = take::<T>(outer * self.index.len() * inner);
        if out.is_empty() {
            return out;
        }
        let rows = (WORK / inner).max(1);
        parallel::for_each_chunk_mut(&mut out, rows * inner, &|piece, part| {
            for (j, row) in part.chunks_mut(inner).enumerate() {
                let number = piece * rows + j;
                let at = self.index[number % self.index.len()] as usize;
                let first = self.start + (number / self.index.len() * len + at) * inner;
                row.copy_from_slice(&x[first..first + inner]);
            }
        });
        out
    }
}

/// `out[i][j][k] = x[i][index[i][j][k]][k]` for axis 1, and likewise for others; in `x`'s precision.
///
/// PyTorch: `gather`. `index` (I64) may be smaller than `x` along the other axes.
pub fn gather(x: &View, axis: usize, index: &View) -> Storage {
    let positions = Positions::new(x, axis, index);
    if x.layout.is_contiguous() && x.data.dtype() == x.logical {
        return each_dtype!(x.data, Slice, v => positions.pick(&v[x.layout.offset..]).into());
    }
    let whole = crate::copy(x, x.logical);
    each_dtype!(whole.as_slice(), Slice, v => positions.pick(v).into())
}

/// `base`, with `src[i][j][k]` added at `[i][index[i][j][k]][k]` for axis 1, and likewise for others.
///
/// PyTorch: `scatter_add`. Sums run in F32 (F64, I64) in row-major order of `src`, so they are deterministic, and are
/// rounded to `out` once.
pub fn scatter_add(base: &View, axis: usize, index: &View, src: &View, out: DType) -> Storage {
    scattered(true, base, axis, index, src, out)
}

/// `base`, with `src[i][j][k]` in the place of `[i][index[i][j][k]][k]` for axis 1, and likewise for others.
///
/// PyTorch: `scatter`. Of several elements for one place, the last in row-major order of `src` stays.
pub fn scatter(base: &View, axis: usize, index: &View, src: &View, out: DType) -> Storage {
    scattered(false, base, axis, index, src, out)
}

fn scattered(adds: bool, base: &View, axis: usize, index: &View, src: &View, out: DType) -> Storage {
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
            sums[at] = if adds { sums[at].add(value) } else { value };
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
    let order = ascending(index);
    let mut storage = Storage::zeros(out, cut.outer * len * cut.inner);
    let rows = (WORK / cut.inner.max(1)).max(1);
    in_num!(out, A => {
        for_chunks(&mut storage, rows * cut.inner, &|piece, mut part| {
            let (mut sum, mut slice) = (vec![<A as Num>::ZERO; cut.inner], vec![A::ZERO; cut.inner]);
            for i in 0..part.len() / cut.inner {
                let (outer, target) = ((piece * rows + i) / len, ((piece * rows + i) % len) as i64);
                let first = order.partition_point(|&j| index[j] < target);
                sum.fill(A::ZERO);
                for &j in order[first..].iter().take_while(|&&j| index[j] == target) {
                    span.load((outer * cut.len + j) * cut.inner, &mut slice);
                    sum.iter_mut().zip(&slice).for_each(|(s, &x)| *s = s.add(x));
                }
                A::narrow(&sum, &mut part.range(i * cut.inner, cut.inner));
            }
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

    fn pick<T: Pooled + Copy + Send + Sync>(&self, x: &[T]) -> Block<T> {
        let mut out = take::<T>(self.index.len());
        parallel::for_each_chunk_mut(&mut out, WORK, &|piece, part| {
            part.iter_mut().enumerate().for_each(|(i, o)| *o = x[self.of(piece * WORK + i)]);
        });
        out
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
