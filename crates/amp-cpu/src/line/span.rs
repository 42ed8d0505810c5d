//! A strided view read as one long line.

use crate::buffer::Buffer;
use crate::convert::{Compute, Stored};
use crate::lockstep::{Elements, Upcoming};
use crate::num::Real;
use crate::source::Source;
use crate::{Dims, Layout, View};

/// The elements of a view in row-major order of some order of its axes.
pub(crate) struct Span<'a> {
    source: Source<'a>,
    len: usize,
}

impl<'a> Span<'a> {
    /// The elements of `view` with its axes taken in the order `axes` (a permutation), slowest first.
    pub fn new(view: &View<'a>, axes: impl IntoIterator<Item = usize>) -> Self {
        let (mut shape, mut strides) = (Dims::default(), Dims::default());
        for axis in axes {
            shape = shape.pushed(view.layout.shape[axis]).expect("a view has at most MAX_RANK axes");
            strides = strides.pushed(view.layout.strides[axis]).expect("a view has at most MAX_RANK axes");
        }
        let layout = Layout { shape, strides, offset: view.layout.offset };
        Self { source: Source::with_layout(view, &layout), len: layout.count() }
    }

    /// The elements of `view` in row-major order.
    pub fn row_major(view: &View<'a>) -> Self {
        Self::new(view, 0..view.layout.shape.len())
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Elements of the longest runs that lie at equal distances.
    pub fn row(&self) -> usize {
        self.source.row()
    }

    /// Loads elements `start .. start + out.len()`.
    pub fn load<A: Compute>(&self, start: usize, out: &mut [A]) {
        self.source.fill(start, out);
    }

    /// Prefetches elements `start..start + len`, if they lie in one piece.
    pub fn prefetch(&self, start: usize, len: usize) {
        self.source.prefetch(start, len);
    }

    /// The memory of the elements from `start` on, where that is one piece.
    pub fn upcoming(&self, start: usize) -> Upcoming {
        self.source.upcoming(start)
    }

    /// Elements `start .. start + len`: the stored ones where no conversion is needed, else loaded into `scratch`.
    pub fn read<'s, A: Compute>(&'s self, start: usize, len: usize, scratch: &'s mut [A]) -> &'s [A] {
        self.source.load(start, len, scratch)
    }

    /// Elements `start .. start + len`: as they are stored where they follow one another, else loaded into `scratch`.
    pub fn elements<'s, A: Compute>(&'s self, start: usize, len: usize, scratch: &'s mut [A]) -> Elements<'s, A> {
        self.source.in_place(start, len).unwrap_or_else(|| Elements::Wide(self.read(start, len, scratch)))
    }

    /// All elements as they are stored, where they follow one another and are of this type.
    pub fn stored<A: Real, B: Stored<A>>(&self) -> Option<&'a [B]> {
        match self.source.in_place::<A>(0, self.len)? {
            Elements::Wide(_) => None,
            Elements::Stored(all) => B::same(all),
        }
    }

    /// Whether [`Self::elements`] needs no scratch.
    pub fn is_stored<A: Compute>(&self) -> bool {
        self.source.in_place::<A>(0, 0).is_some()
    }

    /// Elements `start .. start + len` as they are stored, where they follow one another and need no rounding.
    pub fn in_place<A: Compute>(&self, start: usize, len: usize) -> Option<Elements<'a, A>> {
        self.source.in_place(start, len)
    }

    /// Whether [`Self::read`] needs no scratch, wherever it starts.
    pub fn is_wide<A: Compute>(&self) -> bool {
        self.source.is_stored::<A>()
    }

    /// Whether [`Self::read`] needs no scratch for elements of one run.
    pub fn has_wide_rows<A: Compute>(&self) -> bool {
        matches!(self.source.in_run::<A>(0, 0), Some(Elements::Wide(_)))
    }

    /// As [`Self::read`], with a buffer that is only touched when it is needed.
    pub fn read_lazily<'s, A: Compute>(&'s self, start: usize, len: usize, buffer: &'s mut Buffer<A>) -> &'s [A] {
        self.source.load_lazily(start, len, buffer)
    }
}

/// The three sizes that an axis cuts a shape into: elements before it, along it and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Product of the sizes before the axis.
    pub outer: usize,
    /// Size of the axis.
    pub len: usize,
    /// Product of the sizes after the axis.
    pub inner: usize,
}

impl Cut {
    /// Cuts `shape` at `axis`; a shape without axes is one line of one element.
    pub fn new(shape: &[usize], axis: usize) -> Self {
        match shape.get(axis) {
            Some(&len) => {
                Self { outer: shape[..axis].iter().product(), len, inner: shape[axis + 1..].iter().product() }
            }
            None => Self { outer: 1, len: 1, inner: 1 },
        }
    }

    /// Whether there are lines and they lie side by side, not end to end.
    pub fn is_side_by_side(&self) -> bool {
        self.inner > 1 && self.len > 0
    }

    /// Number of lines along the axis.
    pub fn lines(&self) -> usize {
        self.outer * self.inner
    }
}

/// All axes of a shape of `rank`, `last` at the end.
pub(crate) fn ending_in(rank: usize, last: usize) -> impl Iterator<Item = usize> {
    (0..rank).filter(move |&a| a != last).chain((last < rank).then_some(last))
}
