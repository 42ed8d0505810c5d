//! Chunks of an operand, widened and rounded, whatever its layout and precision.

use crate::buffer::Buffer;
use crate::convert::Compute;
use crate::load::prefetch_range;
use crate::lockstep::{Elements, Upcoming};
use crate::simd::{Kernel, LANES, Level, Simd, dispatch};
use crate::walk::{Run, Walk, copy_run};
use crate::{DType, Layout, Slice, View};

/// An operand prepared for reading in row-major order.
pub(crate) struct Source<'a> {
    data: Slice<'a>,
    walk: Walk,
    rounds_to: Option<DType>,
}

impl<'a> Source<'a> {
    pub fn new(view: &View<'a>) -> Self {
        Self::with_layout(view, view.layout)
    }

    /// The operand `view`, read as if `layout` were its layout.
    pub fn with_layout(view: &View<'a>, layout: &Layout) -> Self {
        let stored = view.data.dtype();
        let narrower = stored.is_float() && view.logical.is_float() && view.logical != stored;
        let exact = view.logical.size() > stored.size();
        Self { data: view.data, walk: Walk::new(layout), rounds_to: (narrower && !exact).then_some(view.logical) }
    }

    /// Elements `at..at + len`: the stored ones where they serve as they are, else converted into `buffer`.
    pub fn load<'b, T: Compute>(&self, at: usize, len: usize, buffer: &'b mut [T]) -> &'b [T]
    where
        'a: 'b,
    {
        self.stored(at, len).unwrap_or_else(|| {
            self.fill(at, &mut buffer[..len]);
            &buffer[..len]
        })
    }

    /// As [`Self::load`], with a buffer that is only touched when it is needed.
    pub fn load_lazily<'b, T: Compute>(&self, at: usize, len: usize, buffer: &'b mut Buffer<T>) -> &'b [T]
    where
        'a: 'b,
    {
        self.stored(at, len).unwrap_or_else(|| {
            let buffer = buffer.first(len);
            self.fill(at, buffer);
            buffer
        })
    }

    /// Whether the elements are stored one after the other, in this type and precision.
    pub fn is_stored<T: Compute>(&self) -> bool {
        matches!(self.in_place::<T>(0, 0), Some(Elements::Wide(_)))
    }

    /// Elements `at..at + len` where they are stored one after the other, in this type and precision.
    fn stored<T: Compute>(&self, at: usize, len: usize) -> Option<&'a [T]> {
        match self.in_run(at, len)? {
            Elements::Wide(all) => Some(all),
            Elements::Stored(_) => None,
        }
    }

    /// Elements `at..at + len` as they are stored, where they lie one after the other and need no rounding.
    pub fn in_place<T: Compute>(&self, at: usize, len: usize) -> Option<Elements<'a, T>> {
        match (self.rounds_to, self.walk.single_run()) {
            (None, Some(Run { start, stride: 1, .. })) => Some(Elements::new(self.data.range(start + at, len))),
            _ => None,
        }
    }

    /// As [`Self::in_place`], where these elements lie so.
    pub fn in_run<T: Compute>(&self, at: usize, len: usize) -> Option<Elements<'a, T>> {
        match (self.rounds_to, self.walk.run(at, len)) {
            (None, Some(Run { start, stride: 1, .. })) => Some(Elements::new(self.data.range(start, len))),
            _ => None,
        }
    }

    /// As [`Self::in_place`], else converted into `buffer`.
    pub fn elements<'b, T: Compute>(&self, at: usize, len: usize, buffer: &'b mut Buffer<T>) -> Elements<'b, T>
    where
        'a: 'b,
    {
        self.in_place(at, len).unwrap_or_else(|| Elements::Wide(self.load_lazily(at, len, buffer)))
    }

    /// Elements of the longest runs.
    pub fn row(&self) -> usize {
        self.walk.row()
    }

    /// Whether the longest runs are single elements that are repeated, or serve as they are stored.
    pub fn serves_by_rows(&self) -> bool {
        self.rounds_to.is_none() && self.walk.stride() <= 1
    }

    /// What is stored from the row of `len` elements at `at` on, for a `len` that the longest runs consist of, and how far from it the
    /// next row begins.
    pub fn rows<T: Compute>(&self, at: usize, len: usize) -> (Elements<'a, T>, usize) {
        let (start, step) = self.walk.rows(at, len);
        (Elements::new(self.data.range(start, self.data.len() - start)), step)
    }

    /// How its elements follow one another.
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// The memory of the elements from `at` on, where all lie one after the other.
    pub fn upcoming(&self, at: usize) -> Upcoming {
        match self.walk.single_run() {
            Some(Run { start, stride: 1, .. }) => Upcoming::new(self.data, start + at),
            _ => Upcoming::default(),
        }
    }

    /// Prefetches elements `at..at + len`, those that exist, if all lie one after the other.
    pub fn prefetch(&self, at: usize, len: usize) {
        if let Some(Run { start, stride: 1, .. }) = self.walk.single_run() {
            prefetch_range(self.data, start + at, len);
        }
    }

    /// Converts the elements from `at` on into `dst`.
    pub fn fill<T: Compute>(&self, at: usize, dst: &mut [T]) {
        match T::same(self.data) {
            Some(all) if self.walk.row() < LONG && dst.len() >= LONG => {
                dispatch(ShortRows { all, walk: &self.walk, at, dst: &mut *dst });
            }
            _ => self.fill_runs(at, dst),
        }
        if let Some(logical) = self.rounds_to {
            T::round_to(logical, dst);
        }
    }

    fn fill_runs<T: Compute>(&self, at: usize, dst: &mut [T]) {
        let mut filled = 0;
        self.walk.for_each_run(at, dst.len(), |run| {
            read(self.data, run, &mut dst[filled..][..run.len]);
            filled += run.len;
        });
    }
}

fn read<T: Compute>(data: Slice<'_>, run: Run, dst: &mut [T]) {
    match (run.stride, T::same(data)) {
        // Short runs take no longer than choosing the instructions for a conversion.
        (0, Some(all)) if run.len < LONG => dst.fill(all[run.start]),
        (0, Some(all)) => dispatch(Fill(all[run.start], dst)),
        (1, Some(all)) => copy_run(&all[run.start..][..run.len], dst),
        _ => convert(data, run, dst),
    }
}

/// Elements from which filling by the widest stores takes less, choosing them included.
const LONG: usize = 128;

struct Fill<'a, T>(T, &'a mut [T]);

impl<T: Compute> Kernel for Fill<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        self.1.fill(self.0);
    }
}

/// Rows that are too short for calls of their own: of 32 elements, a Kronecker product took twice as long by single ones.
struct ShortRows<'a, T> {
    all: &'a [T],
    walk: &'a Walk,
    at: usize,
    dst: &'a mut [T],
}

impl<T: Compute> Kernel for ShortRows<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { all, walk, at, dst } = self;
        let mut filled = 0;
        walk.for_each_group(at, dst.len(), |run, rows, step| {
            let group = &mut dst[filled..][..rows * run.len];
            for (r, row) in group.chunks_exact_mut(run.len).enumerate() {
                let from = &all[run.start + r * step..];
                match run.stride {
                    0 => fill_short(row, from[0]),
                    1 => copy_short(&from[..run.len], row),
                    stride => row.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, &x)| *to = x),
                }
            }
            filled += group.len();
        });
    }
}

/// Fills a few vectors without a call.
#[inline(always)]
fn fill_short<T: Copy>(row: &mut [T], value: T) {
    let (vectors, rest) = row.as_chunks_mut::<LANES>();
    vectors.iter_mut().for_each(|to| *to = [value; LANES]);
    rest.iter_mut().for_each(|to| *to = value);
}

/// Copies a few vectors without a call.
#[inline(always)]
fn copy_short<T: Copy>(from: &[T], row: &mut [T]) {
    let (vectors, rest) = from.as_chunks::<LANES>();
    let (targets, rest_of_row) = row.as_chunks_mut::<LANES>();
    targets.iter_mut().zip(vectors).for_each(|(to, from)| *to = *from);
    rest_of_row.iter_mut().zip(rest).for_each(|(to, &x)| *to = x);
}

fn convert<T: Compute>(data: Slice<'_>, run: Run, dst: &mut [T]) {
    match run.stride {
        0 => {
            let mut first = [T::default()];
            T::widen(data.range(run.start, 1), &mut first);
            dst.fill(first[0]);
        }
        1 => T::widen(data.range(run.start, run.len), dst),
        stride => T::gather(data.range(run.start, (run.len - 1) * stride + 1), stride, dst),
    }
}
