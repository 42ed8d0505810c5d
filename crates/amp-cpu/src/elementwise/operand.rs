//! Operands that do not lie as the result does (broadcast, strided): rows that lie apart, rows of one element, and tiles that come
//! again and again.

use crate::convert::Compute;
use crate::lockstep::Elements;
use crate::simd::Simd;

/// The elements of an operand for one chunk.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a, T> {
    pub elements: Elements<'a, T>,
    pub place: Place,
}

/// Where the elements of a step lie: the sum of its positions times these.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub at: usize,
    pub tile: usize,
    pub row: usize,
    pub column: usize,
}

impl Place {
    pub const NONE: Self = Self { at: 0, tile: 0, row: 0, column: 0 };
    /// As those of the result.
    pub const PLAIN: Self = Self { at: 1, ..Self::NONE };

    /// Whether all elements of a row are one.
    #[inline(always)]
    pub fn is_single(self) -> bool {
        self.at + self.tile + self.column == 0
    }
}

impl<T: Compute> Operand<'_, T> {
    /// Whether nothing has to be widened or repeated.
    #[inline(always)]
    pub fn is_wide(&self, singles: bool) -> bool {
        self.elements.is_wide() && (singles || !self.place.is_single())
    }

    /// The elements of a step, by way of `room` if they have to be widened or repeated.
    #[inline(always)]
    pub fn block<'b, S: Simd>(&'b self, step: Step, room: &'b mut [T], singles: bool) -> &'b [T] {
        let Place { at, tile, row, column } = self.place;
        let at = step.at * at + step.tile * tile + step.row * row + step.column * column;
        if !self.place.is_single() {
            return self.elements.block::<S>(at, step.len, room);
        }
        if singles {
            return self.elements.block::<S>(at, 1, room);
        }
        let value = self.elements.block::<S>(at, 1, room)[0];
        room[..step.len].fill(value);
        &room[..step.len]
    }
}

/// A part of the output.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    /// Where it begins.
    pub at: usize,
    /// Elements of a tile.
    pub tile: usize,
    /// Elements of a row.
    pub row: usize,
    /// Elements of the first row that are before the chunk.
    pub column: usize,
}

/// A block of each operand.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// Where it begins.
    pub at: usize,
    /// Its elements.
    pub len: usize,
    /// Where it begins in a tile.
    tile: usize,
    /// The row that it is of, and where it begins there.
    row: usize,
    column: usize,
}

/// The steps in which operands are taken: none crosses the end of a tile, or of a row.
pub(super) struct Steps {
    next: Step,
    chunk: Chunk,
    end: usize,
}

impl Chunk {
    /// One for whose operands nothing is repeated.
    pub const fn plain(at: usize) -> Self {
        Self { at, tile: usize::MAX, row: usize::MAX, column: 0 }
    }

    /// Steps of up to `len` elements, up to `end`.
    #[inline(always)]
    pub fn steps(self, len: usize, end: usize) -> Steps {
        Steps { next: Step { at: 0, len, tile: 0, row: 0, column: self.column }, chunk: self, end }
    }
}

impl Iterator for Steps {
    type Item = Step;

    #[inline(always)]
    fn next(&mut self) -> Option<Step> {
        let (step, Chunk { tile, row, .. }) = (self.next, self.chunk);
        let len = step.len.min(tile - step.tile).min(row - step.column).min(self.end - step.at);
        let next = &mut self.next;
        next.at += len;
        next.tile = if step.tile + len == tile { 0 } else { step.tile + len };
        next.column += len;
        if next.column == row {
            (next.row, next.column) = (step.row + 1, 0);
        }
        (len > 0).then_some(Step { len, ..step })
    }
}
