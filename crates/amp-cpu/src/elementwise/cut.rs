//! How work is cut where operands do not lie as the result does (broadcast, strided), and room for what has to be loaded of them.
//!
//! Loading each such operand by chunks of 4096 elements, constants too, took 1.6 to 2 times as long as adding two that lie alike:
//! hence rows that are looked up in one call, constants that the operation takes as such, and tiles. More in
//! `benches/record/findings.md`.

use super::operand::{Chunk, Operand, Place};
use crate::SliceMut;
use crate::buffer::Buffer;
use crate::convert::Compute;
use crate::lockstep::{BLOCK, Elements};
use crate::parallel::CHUNK;
use crate::source::Source;

/// How elements are cut into chunks.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// No chunk crosses a multiple of this.
    block: usize,
    /// Elements of a chunk at most.
    most: usize,
    /// Elements of a tile; chunks of a block but the first begin where a tile does.
    tile: usize,
    /// Elements of a row.
    row: usize,
}

/// Elements of a chunk that is loaded: of a quarter, finding what is added took a fifth of the time of adding rows.
const ROOM: usize = 4 * CHUNK;
/// Elements of a tile at most: few enough to stay in the first-level cache.
const TILE: usize = 2 * CHUNK;
/// Elements of a row that are worth a step of their own.
const STEP: usize = 128;
/// Elements that are worth a chunk of their own.
const WORTH: usize = CHUNK;

impl Cut {
    /// The longest chunks in which every operand keeps its way: tiles the same rows, rows their distance.
    ///
    /// Runs of operands of one shape are products of its last dimensions: each consists of whole shorter ones.
    pub fn of<T: Compute>(sources: &[Source]) -> Self {
        let (mut block, mut most, mut tiled, mut row) = (usize::MAX, usize::MAX, 1, usize::MAX);
        let apart = || sources.iter().filter(|x| x.in_place::<T>(0, 0).is_none()).map(|x| (Way::of(x), x.walk()));
        for (way, walk) in apart() {
            match way {
                Way::Tiles => (block, tiled) = (block.min(walk.even()), tiled.max(walk.row())),
                Way::Rows => row = row.min(walk.row()),
                Way::Loaded => most = ROOM,
            }
        }
        for (_, walk) in apart().filter(|(way, _)| *way == Way::Rows) {
            block = block.min(if walk.row() == row { walk.even() } else { walk.row() });
        }
        let tile = (block / 8).clamp(BLOCK, TILE).max(tiled) / tiled * tiled;
        Self { block, most: most / tile * tile, tile, row }
    }

    /// Calls `f(chunk, its results)` for the chunks of a part of the output that begins at `start`.
    pub fn for_each(self, start: usize, mut part: SliceMut<'_>, f: &mut dyn FnMut(Chunk, &mut SliceMut<'_>)) {
        let (mut at, mut within) = (start, start % self.block);
        let mut aside = within % self.tile;
        while !part.is_empty() {
            let most = if aside > 0 { self.tile - aside } else { self.most };
            let len = (self.block - within).min(most).min(part.len());
            let (mut chunk, rest) = part.split_at(len);
            let column = at % self.row;
            f(Chunk { at, tile: self.tile, row: self.row, column }, &mut chunk);
            (part, at, aside) = (rest, at + len, 0);
            within = if within + len == self.block { 0 } else { within + len };
        }
    }
}

/// How an operand is read that does not lie as the result does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A few rows, which are repeated, are loaded and stay.
    Tiles,
    /// Rows serve as they are stored.
    Rows,
    /// A chunk is loaded at a time.
    Loaded,
}

impl Way {
    fn of(x: &Source) -> Self {
        let walk = x.walk();
        match walk.row() {
            _ if walk.even() < WORTH => Self::Loaded,
            row if row >= BLOCK && x.serves_by_rows() => Self::Rows,
            row if row <= TILE && walk.repeats() => Self::Tiles,
            row if row >= STEP && x.serves_by_rows() => Self::Rows,
            _ => Self::Loaded,
        }
    }
}

/// Room for a chunk of an operand that does not serve as it lies.
pub(super) struct Room<T> {
    buffer: Buffer<T, ROOM>,
    /// Where the row begins that the tile in it consists of, and its elements.
    tile: Option<(usize, usize)>,
}

impl<T: Compute> Room<T> {
    pub fn new() -> Self {
        Self { buffer: Buffer::new(), tile: None }
    }

    /// Elements `at..at + len` of `source`.
    pub fn elements<'b>(
        &'b mut self,
        source: &Source<'b>,
        Chunk { at, row, tile, .. }: Chunk,
        len: usize,
    ) -> Operand<'b, T> {
        if let Some(elements) = source.in_run(at, len) {
            return Operand { elements, place: Place::PLAIN };
        }
        match Way::of(source) {
            Way::Rows => {
                let (elements, row) = source.rows(at - at % row, row);
                Operand { elements, place: Place { row, column: source.walk().stride(), ..Place::NONE } }
            }
            Way::Tiles if at.is_multiple_of(source.walk().row()) => self.tile(source, at, len.min(tile)),
            _ => {
                self.tile = None;
                Operand { elements: Elements::Wide(self.load(source, at, len)), place: Place::PLAIN }
            }
        }
    }

    fn tile<'b>(&'b mut self, source: &Source<'b>, at: usize, len: usize) -> Operand<'b, T> {
        let (row, _) = source.walk().rows(at, source.walk().row());
        if !self.tile.is_some_and(|(loaded, count)| loaded == row && count >= len) {
            self.load(source, at, len);
            self.tile = Some((row, len));
        }
        let elements = Elements::Wide(&*self.buffer.first(len));
        Operand { elements, place: Place { tile: 1, ..Place::NONE } }
    }

    fn load(&mut self, source: &Source, at: usize, len: usize) -> &mut [T] {
        let elements = self.buffer.first(len);
        source.fill(at, elements);
        elements
    }
}
