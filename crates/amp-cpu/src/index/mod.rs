//! Selecting and adding by index. The caller has checked the indices.

mod along;
#[cfg(test)]
mod tests;

pub use along::{gather, scatter, scatter_add};

use crate::cache::{Pooled, take};
use crate::convert::{Compute, each_dtype};
use crate::line::{Cut, Span, store};
use crate::lockstep::Elements;
use crate::num::{Num, in_num};
use crate::parallel;
use crate::simd::{Kernel, Simd, dispatch};
use crate::split::{for_chunks, map_all};
use crate::{Block, DType, Slice, Storage, View, scratch};
use std::borrow::Cow;

/// Elements of one piece of work.
const WORK: usize = 1 << 14;
/// How many slices ahead one is prefetched.
const AHEAD: usize = 2;

/// Elements of a slice that are few to be looked for one slice at a time.
const SHORT: usize = 16;
/// Of as many slices one has to be wanted for all of them to be copied first, where they lie apart.
const MOST: usize = 4;

/// The first of the I64 elements of `index`, in row-major order, that is outside `0..size` and not `ignored`.
pub fn outside(index: &View, size: usize, ignored: Option<i64>) -> Option<i64> {
    // What was expanded is looked at once.
    let mut layout = *index.layout;
    for (size, &stride) in layout.shape.iter_mut().zip(&layout.strides[..]) {
        if stride == 0 {
            *size = 1.min(*size);
        }
    }
    let index = indices(&View { layout: &layout, ..*index });
    let pieces: Vec<&[i64]> = index.chunks(WORK).collect();
    map_all(&pieces, index.len(), |piece| {
        let is_outside = |&&i: &&i64| usize::try_from(i).map_or(true, |i| i >= size) && Some(i) != ignored;
        if dispatch(Outside { index: piece, size, ignored }) { piece.iter().find(is_outside).copied() } else { None }
    })
    .into_iter()
    .flatten()
    .next()
}

/// Whether an index is outside, of all without stopping at the first.
struct Outside<'a> {
    index: &'a [i64],
    size: usize,
    ignored: Option<i64>,
}

impl Kernel for Outside<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        let (size, counts, ignored) = (self.size as i64, self.ignored.is_none(), self.ignored.unwrap_or(0));
        self.index.iter().fold(false, |found, &i| found | (((i < 0) | (i >= size)) & (counts | (i != ignored))))
    }
}

/// The elements of an I64 view, in row-major order; as they lie, where they do so.
pub fn indices<'a>(index: &View<'a>) -> Cow<'a, [i64]> {
    let span = Span::row_major(index);
    if let Some(Elements::Wide(all)) = span.in_place(0, span.len()) {
        return Cow::Borrowed(all);
    }
    let mut values = vec![0; span.len()];
    span.load(0, &mut values);
    Cow::Owned(values)
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

/// `base`, or zeros, with `len` slices along `axis`, and slice `j` of `src` added to slice `index[j]`.
///
/// PyTorch: `index_add`; from zeros, the gradient of [`index_select`]. Sums run in F32 (F64) in the order of `index`, whatever the
/// number of threads, and are rounded to `out` once.
pub fn index_add(base: Option<&View>, len: usize, axis: usize, index: &[i64], src: &View, out: DType) -> Storage {
    let sums = Sums {
        base: base.map(Span::row_major),
        src: Span::row_major(src),
        cut: Cut::new(&src.layout.shape, axis),
        len,
    };
    in_num!(out, A => {
        if sums.cut.inner < SHORT || sums.cut.outer >= SHORT {
            sums.in_order::<A>(index, out)
        } else {
            sums.by_range::<A>(index, out)
        }
    })
}

/// Slices that are added.
struct Sums<'a> {
    /// What they are added to, if not zeros.
    base: Option<Span<'a>>,
    src: Span<'a>,
    /// That of `src`.
    cut: Cut,
    /// Slices of the result in each block before the axis.
    len: usize,
}

impl Sums<'_> {
    /// The elements from `at` on, before anything is added.
    fn begin<A: Num>(&self, at: usize, sums: &mut [A]) {
        match &self.base {
            Some(base) => base.load(at, sums),
            None => sums.fill(A::ZERO),
        }
    }

    /// One range of the result's slices after the other, each in the order of `src`.
    fn by_range<A: Num>(&self, index: &[i64], out: DType) -> Storage {
        let (Cut { outer, len: terms, inner }, len) = (self.cut, self.len);
        let target = |slice: usize| slice / terms * len + index[slice % terms] as usize;
        let rows = (WORK / inner).max(1);
        let ranges = (outer * len).div_ceil(rows);
        let (starts, order) = by_value((0..outer * terms).map(|slice| target(slice) / rows), ranges);
        let mut storage = Storage::unwritten(out, outer * len * inner);
        for_chunks(&mut storage, rows * inner, &|range, mut part| {
            let (first, summed) = (range * rows, if out == A::DTYPE { 0 } else { part.len() });
            scratch::with(summed + inner, |room: &mut [A]| {
                let (slice, sums) = room.split_at_mut(inner);
                store(&mut part, sums, |sums| {
                    self.begin(first * inner, sums);
                    let order = &order[starts[range]..starts[range + 1]];
                    for (k, &i) in order.iter().enumerate() {
                        if let Some(&later) = order.get(k + AHEAD) {
                            self.src.prefetch(later * inner, inner);
                        }
                        let to = (target(i) - first) * inner;
                        add(&mut sums[to..][..inner], self.src.read(i * inner, inner, slice));
                    }
                });
            });
        });
        storage
    }

    /// Slice after slice of `src`, of each block before the axis: what is added to one place is added in the same order.
    ///
    /// Looking for every place's terms took fifty times as long for slices of one element.
    fn in_order<A: Num>(&self, index: &[i64], out: DType) -> Storage {
        let (block, inner, len) = (self.cut.len * self.cut.inner, self.cut.inner, self.len);
        let mut storage = Storage::unwritten(out, self.cut.outer * len * inner);
        let loaded = if self.src.is_wide::<A>() { 0 } else { block };
        let summed = if out == A::DTYPE { 0 } else { len * inner };
        for_chunks(&mut storage, len * inner, &|outer, mut piece| {
            scratch::with(loaded + summed, |room: &mut [A]| {
                let (from, sums) = room.split_at_mut(loaded);
                let slices = self.src.read(outer * block, block, from);
                store(&mut piece, sums, |sums| {
                    self.begin(outer * len * inner, sums);
                    for (slice, &at) in slices.chunks_exact(inner).zip(index) {
                        add(&mut sums[at as usize * inner..][..inner], slice);
                    }
                });
            });
        });
        storage
    }
}

fn add<A: Num>(sums: &mut [A], slice: &[A]) {
    sums.iter_mut().zip(slice).for_each(|(sum, &x)| *sum = sum.add(x));
}

/// The positions of `keys`, which are less than `len`, by their value, and where in this order each value begins.
fn by_value(keys: impl Iterator<Item = usize> + Clone, len: usize) -> (Vec<usize>, Vec<usize>) {
    let mut starts = vec![0; len + 1];
    keys.clone().for_each(|key| starts[key + 1] += 1);
    for value in 0..len {
        starts[value + 1] += starts[value];
    }
    let (mut next, mut order) = (starts.clone(), vec![0; starts[len]]);
    for (position, key) in keys.enumerate() {
        order[next[key]] = position;
        next[key] += 1;
    }
    (starts, order)
}
