//! Selecting, gathering and adding by index. The caller has checked the indices.

#[cfg(test)]
mod tests;

use crate::cache::{Pooled, take};
use crate::convert::{Compute, each_dtype};
use crate::line::{Cut, Span, store};
use crate::load::offset_of;
use crate::num::{Num, in_num};
use crate::parallel;
use crate::reduce::converted;
use crate::split::for_chunks;
use crate::{Block, DType, Slice, Storage, View, scratch};

/// Elements of one piece of work.
const WORK: usize = 1 << 14;

/// Elements of a slice that are few to be looked for one slice at a time.
const SHORT: usize = 16;
/// Of as many slices one has to be wanted for all of them to be copied first, where they lie apart.
const MOST: usize = 4;

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
    if index.len() >= cut.len / MOST {
        let rows = Rows { start: 0, ..rows };
        return each_dtype!(crate::copy(x, x.logical).as_slice(), Slice, v => rows.copy(v).into());
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
            let (mut number, mut part) = (piece * rows, part);
            while !part.is_empty() {
                let (outer, first) = (number / self.index.len(), number % self.index.len());
                let count = (self.index.len() - first).min(part.len() / inner);
                let (now, later) = part.split_at_mut(count * inner);
                pick(&x[self.start + outer * len * inner..], &self.index[first..][..count], inner, now);
                (number, part) = (number + count, later);
            }
        });
        out
    }
}

/// The slices of `inner` elements of `x` at positions `index`. Single elements by calls that copy slices, and a division to find
/// each, took three times as long as they do.
fn pick<T: Copy>(x: &[T], index: &[i64], inner: usize, out: &mut [T]) {
    if inner == 1 {
        return out.iter_mut().zip(index).for_each(|(to, &at)| *to = x[at as usize]);
    }
    for (to, &at) in out.chunks_exact_mut(inner).zip(index) {
        to.copy_from_slice(&x[at as usize * inner..][..inner]);
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
        positions.for_each(0, values.len(), |i, at| {
            sums[at] = if adds { sums[at].add(values[i]) } else { values[i] };
        });
        converted(sums, out)
    })
}

/// Zeros with `len` slices along `axis`, and slice `j` of `src` added to slice `index[j]`.
///
/// The gradient of [`index_select`]. Sums run in F32 (F64) in the order of `index`, whatever the number of threads.
pub fn index_add(len: usize, axis: usize, index: &[i64], src: &View, out: DType) -> Storage {
    let cut = Cut::new(&src.layout.shape, axis);
    let span = Span::row_major(src);
    if cut.inner < SHORT || cut.outer >= SHORT {
        return in_num!(out, A => added_in_order::<A>(&span, cut, len, index, out));
    }
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

/// The positions of `keys` from the least to the greatest; of equal ones in their order.
fn ascending(keys: &[i64]) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..keys.len()).collect();
    positions.sort_by_key(|&i| keys[i]);
    positions
}

/// [`index_add`], slice after slice, of each block before the axis: what is added to one place is added in the same order.
///
/// Sorting the index, and looking every place up in it, took fifty times as long for slices of one element.
fn added_in_order<A: Num>(span: &Span, cut: Cut, len: usize, index: &[i64], out: DType) -> Storage {
    let (block, inner) = (cut.len * cut.inner, cut.inner);
    let mut storage = Storage::unwritten(out, cut.outer * len * inner);
    let loaded = if span.is_wide::<A>() { 0 } else { block };
    let summed = if out == A::DTYPE { 0 } else { len * inner };
    for_chunks(&mut storage, len * inner, &|outer, mut piece| {
        scratch::with(loaded + summed, |room: &mut [A]| {
            let (from, sums) = room.split_at_mut(loaded);
            let slices = span.read(outer * block, block, from);
            store(&mut piece, sums, |sums| {
                sums.fill(A::ZERO);
                for (slice, &at) in slices.chunks_exact(inner).zip(index) {
                    let sums = &mut sums[at as usize * inner..][..inner];
                    sums.iter_mut().zip(slice).for_each(|(sum, &x)| *sum = sum.add(x));
                }
            });
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
            self.for_each(piece * WORK, part.len(), |i, at| part[i - piece * WORK] = x[at]);
        });
        out
    }

    /// Calls `f` with elements `start..start + count` of the index, by number, and where each points to.
    ///
    /// Dividing for each of them by every size took five times as long as the rest of gathering.
    fn for_each(&self, start: usize, count: usize, mut f: impl FnMut(usize, usize)) {
        let (sizes, steps) = (&self.shape[..], &self.steps[..]);
        let (row, step) = (sizes.last().map_or(1, |&size| size), steps.last().map_or(0, |&step| step));
        let (mut at, end) = (start, start + count);
        while at < end {
            let column = at % row;
            let first = offset_of(at / row, &sizes[..sizes.len().max(1) - 1], &steps[..sizes.len().max(1) - 1]);
            let rest = (row - column).min(end - at);
            for (k, &index) in self.index[at..][..rest].iter().enumerate() {
                f(at + k, first + (column + k) * step + index as usize * self.step);
            }
            at += rest;
        }
    }
}
