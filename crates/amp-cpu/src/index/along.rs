//! Gathering from, and scattering to, places along an axis.

use super::{WORK, index_add, index_select, indices};
use crate::cache::{Pooled, take};
use crate::convert::each_dtype;
use crate::line::Span;
use crate::load::offset_of;
use crate::num::{Num, in_num};
use crate::output::Output;
use crate::storage::Element;
use crate::{Block, DType, Dims, Layout, Slice, Storage, View, copy, parallel};
use std::borrow::Cow;
use std::ops::Range;

/// Neighbouring lines of one task, at least: they share the cache lines that they are added to.
const COLUMNS: usize = 64;

/// `out[i][j][k] = x[i][index[i][j][k]][k]` for axis 1, and likewise for others; in `x`'s precision.
///
/// PyTorch: `gather`. `index` (I64) may be smaller than `x` along the other axes.
pub fn gather(x: &View, axis: usize, index: &View) -> Storage {
    if let Some(slices) = slices(&x.layout.shape, axis, index) {
        return index_select(x, axis, &slices);
    }
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
    if let Some(slices) = slices(&base.layout.shape, axis, index) {
        let layout = cropped(src, index);
        return index_add(Some(base), base.layout.shape[axis], axis, &slices, &View { layout: &layout, ..*src }, out);
    }
    scattered(true, base, axis, index, src, out)
}

/// `base`, with `src[i][j][k]` in the place of `[i][index[i][j][k]][k]` for axis 1, and likewise for others.
///
/// PyTorch: `scatter`. Of several elements for one place, the last in row-major order of `src` stays.
pub fn scatter(base: &View, axis: usize, index: &View, src: &View, out: DType) -> Storage {
    scattered(false, base, axis, index, src, out)
}

fn scattered(adds: bool, base: &View, axis: usize, index: &View, src: &View, out: DType) -> Storage {
    let lines = Lines::new(&base.layout.shape, axis, index);
    let layout = cropped(src, index);
    let src = View { layout: &layout, ..*src };
    in_num!(out, A => {
        let mut sums = copy(base, A::DTYPE);
        let span = Span::row_major(&src);
        let loaded = if span.is_wide::<A>() { None } else { Some(copy(&src, A::DTYPE)) };
        let values = match &loaded {
            Some(loaded) => A::same(loaded.as_slice()).expect("copied to this type"),
            None => span.read::<A>(0, span.len(), &mut []),
        };
        if adds {
            lines.join(values, &mut sums, A::add);
        } else {
            lines.join(values, &mut sums, |_, value| value);
        }
        if out == A::DTYPE {
            return sums;
        }
        let layout = Layout::contiguous(base.layout.shape);
        copy(&View { data: sums.as_slice(), layout: &layout, logical: A::DTYPE }, out)
    })
}

/// The part of `src` that an index names places for, whose shape may be smaller.
fn cropped(src: &View, index: &View) -> Layout {
    Layout { shape: index.layout.shape, ..*src.layout }
}

/// The index along its axis, if it was expanded along all others to those of a tensor of a `shape`, so that it names whole slices.
///
/// PyTorch's users sum messages along the edges of graphs so. For 27,000 edges of 128 channels on a core of Zen 4, sums take a third
/// and gathering a seventh of the time that an index of each element takes.
fn slices(shape: &Dims, axis: usize, index: &View) -> Option<Vec<i64>> {
    let Layout { shape: sizes, strides, offset } = *index.layout;
    let whole = |i: usize| i == axis || sizes[i] == shape[i] && (strides[i] == 0 || sizes[i] == 1);
    if sizes.len() < 2 || sizes.count() == 0 || !(0..sizes.len()).all(whole) {
        return None;
    }
    let line = |values: &Dims| Dims::new(&[values[axis]]).expect("one dimension");
    let layout = Layout { shape: line(&sizes), strides: line(&strides), offset };
    Some(indices(&View { layout: &layout, ..*index }).into_owned())
}

/// Lines of an index along its axis, and where the tensor begins that they point into. Where the axis is not the last one, those
/// of neighbours in the last dimension lie side by side, and are walked together.
///
/// No two lines name one place: any of them may be worked on at once, each by itself in order.
struct Lines<'a> {
    index: Cow<'a, [i64]>,
    /// Elements of a line.
    len: usize,
    /// Places along the axis, in the tensor.
    places: usize,
    /// Lines that lie side by side.
    width: usize,
    /// From one element of a line to the next, in the index.
    step: usize,
    /// From one place along the axis to the next, in the tensor.
    target_step: usize,
    /// Sizes of the other dimensions, and their strides in the index and in the tensor.
    others: [Dims; 3],
}

impl<'a> Lines<'a> {
    fn new(shape: &Dims, axis: usize, index: &View<'a>) -> Self {
        let sizes = index.layout.shape;
        let fits = |i: usize| i == axis || sizes[i] <= shape[i];
        assert!(sizes.len() == shape.len() && (0..sizes.len()).all(fits), "{sizes:?} indices of {shape:?}");
        let (from, to) = (sizes.contiguous_strides(), shape.contiguous_strides());
        let at = |dims: &Dims| dims.get(axis).copied().unwrap_or(1);
        let side_by_side = axis + 1 < sizes.len();
        let others = [sizes, from, to].map(|dims| {
            let dims = if axis < dims.len() { dims.removed(axis) } else { dims };
            if side_by_side { dims.removed(dims.len() - 1) } else { dims }
        });
        let width = if side_by_side { sizes[sizes.len() - 1] } else { 1 };
        Self {
            index: indices(index),
            len: at(&sizes),
            places: at(shape),
            width,
            step: at(&from),
            target_step: at(&to),
            others,
        }
    }

    /// `join(what is there, value)` to the place that each index names, in the order of each line.
    fn join<A: Num>(&self, values: &[A], sums: &mut Storage, join: impl Fn(A, A) -> A + Copy + Send + Sync) {
        let sums = Output::new(sums);
        let columns = self.width.div_ceil(16).max(COLUMNS).min(self.width.max(1));
        let blocks = self.width.div_ceil(columns);
        let (count, group) = (self.others[0].count() * blocks, WORK.div_ceil((self.len * columns).max(1)));
        parallel::for_each(count.div_ceil(group), self.index.len(), |task| {
            for i in task * group..count.min((task + 1) * group) {
                let (first, place) = (i % blocks * columns, i / blocks);
                // SAFETY: no other task has these lines, and no other line these places: indices are at most as many as what
                // they point into along every other axis, and inside of their own.
                unsafe { self.join_lines(place, first..self.width.min(first + columns), values, sums, join) };
            }
        });
    }

    /// Lines `columns` of those that lie side by side at `place`.
    ///
    /// # Safety
    /// No other thread may touch the places of these lines meanwhile.
    unsafe fn join_lines<A: Num>(
        &self,
        place: usize,
        columns: Range<usize>,
        values: &[A],
        sums: Output,
        join: impl Fn(A, A) -> A,
    ) {
        let [sizes, from, to] = &self.others;
        let (first, target) =
            (offset_of(place, sizes, from) + columns.start, offset_of(place, sizes, to) + columns.start);
        let all = sums.rows::<A>(0, 0, 1, sums.len()).expect("sums have the type that is computed in");
        let add = |first: usize, index: i64, value: A| {
            let place = first + index as usize * self.target_step;
            assert!((index as usize) < self.places && place < sums.len());
            // SAFETY: inside the buffer (checked above), and this thread's alone (caller).
            unsafe { *all.add(place) = join(*all.add(place), value) };
        };
        let row = |at: usize, count: usize, step: usize| {
            let terms = self.index[at..][..count].iter().zip(&values[at..][..count]);
            terms.enumerate().for_each(|(j, (&i, &value))| add(target + j * step, i, value));
        };
        if self.step == 1 {
            return row(first, self.len, 0);
        }
        (0..self.len).for_each(|k| row(first + k * self.step, columns.len(), 1));
    }
}

/// Where in the row-major order of a view the elements named by an index tensor lie.
struct Positions<'a> {
    index: Cow<'a, [i64]>,
    shape: Dims,
    steps: Dims,
    step: usize,
}

impl<'a> Positions<'a> {
    fn new(x: &View, axis: usize, index: &View<'a>) -> Self {
        let mut steps = x.layout.shape.contiguous_strides();
        let step = steps.get(axis).copied().unwrap_or(0);
        if axis < steps.len() {
            steps[axis] = 0;
        }
        Self { index: indices(index), shape: index.layout.shape, steps, step }
    }

    fn pick<T: Pooled + Copy + Send + Sync>(&self, x: &[T]) -> Block<T> {
        let mut out = take::<T>(self.index.len());
        parallel::for_each_chunk_mut(&mut out, WORK, &|piece, part| self.pick_part(x, piece * WORK, part));
        out
    }

    /// The elements from `start` on.
    ///
    /// Dividing for each of them by every size took five times as long as the rest of gathering.
    fn pick_part<T: Copy>(&self, x: &[T], start: usize, part: &mut [T]) {
        let (sizes, steps) = (&self.shape[..], &self.steps[..]);
        let (row, step) = (sizes.last().map_or(1, |&size| size), steps.last().map_or(0, |&step| step));
        let (mut at, mut part) = (start, part);
        while !part.is_empty() {
            let column = at % row;
            let first = offset_of(at / row, &sizes[..sizes.len().max(1) - 1], &steps[..sizes.len().max(1) - 1]);
            let (now, later) = part.split_at_mut((row - column).min(part.len()));
            let index = &self.index[at..][..now.len()];
            // A step of 0 is known to the compiler in the first loop.
            match step {
                0 => pick_row(&x[first..], index, 0, self.step, now),
                _ => pick_row(&x[first + column * step..], index, step, self.step, now),
            }
            (at, part) = (at + index.len(), later);
        }
    }
}

#[inline(always)]
fn pick_row<T: Copy>(x: &[T], index: &[i64], step: usize, target_step: usize, out: &mut [T]) {
    let indices = out.iter_mut().zip(index).enumerate();
    indices.for_each(|(k, (to, &i))| *to = x[k * step + i as usize * target_step]);
}
