//! A task of a product: one block of the result, summed over the whole depth and handed to the sink.
//!
//! The last part of the depth is multiplied one strip of rows at a time, which is stored while it is in the L1 cache; a
//! depth of one part alone needs no more room than a strip.

use super::kernel::{MicroKernel, Multiply, Prepared};
use super::packed::Packed;
use super::product::{Sink, tiles};
use super::strip::{Strip, strips};
use crate::output::Finished;
use crate::scratch;
use std::ops::Range;

pub(super) struct Task<'a, E: Multiply> {
    pub(super) kernel: &'a MicroKernel<E>,
    pub(super) a: &'a Packed<'a, E>,
    pub(super) b: &'a Packed<'a, E>,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) depth: usize,
    /// Most of the depth that is multiplied at once.
    pub(super) long: usize,
    /// Where the last part of the depth begins.
    pub(super) last: usize,
    /// Columns with their padding: the way from row to row of the sums.
    pub(super) stride: usize,
    pub(super) sink: &'a dyn Sink<E::Sum>,
    /// This thread, which is prepared for the kernel.
    prepared: Prepared,
}

/// A part of the depth, with the right side's panels.
pub(super) struct Part<'a, E> {
    pub depth: Range<usize>,
    pub right: &'a [E],
}

impl<'a, E: Multiply> Task<'a, E> {
    pub(super) fn new(
        kernel: &'a MicroKernel<E>,
        [a, b]: [&'a Packed<'a, E>; 2],
        [rows, columns]: [Range<usize>; 2],
        depth: usize,
        sink: &'a dyn Sink<E::Sum>,
    ) -> Self {
        let long = kernel.depth.block(depth);
        let last = depth.saturating_sub(1) / long * long;
        let stride = kernel.right.rows(columns.len());
        Self { kernel, a, b, rows, columns, depth, long, last, stride, sink, prepared: kernel.prepared() }
    }

    pub(super) fn run(&self) {
        let height = self.kernel.left.rows(self.rows.len());
        let longest = self.kernel.left.depth(self.depth.min(self.long));
        let high = if self.last > 0 { height } else { self.kernel.left.width };
        scratch::with((height + self.stride) * longest, |packed: &mut [E]| {
            scratch::with(high * self.stride, |sums: &mut [E::Sum]| {
                let (of_right, of_left) = packed.split_at_mut(self.stride * longest);
                for start in (0..=self.last).step_by(self.long) {
                    let depth = start..self.depth.min(start + self.long);
                    let right = self.b.block(self.columns.clone(), depth.clone(), of_right);
                    self.part(&Part { depth, right }, of_left, sums);
                }
            });
        });
    }

    /// Multiplies a part of the depth, the left side being packed into `buffer` where it has to be.
    fn part(&self, part: &Part<'_, E>, buffer: &mut [E], sums: &mut [E::Sum]) {
        if self.a.are_lines() {
            return self.strips(part, sums, |here, strip| self.lines(part, here, buffer, strip));
        }
        let left = self.a.block(self.rows.clone(), part.depth.clone(), buffer);
        if !self.ends(part) {
            return tiles(self.kernel, left, part.right, part.depth.len(), sums, self.stride, part.depth.start > 0);
        }
        self.strips(part, sums, |here, strip| self.panel(part, here, left, strip));
    }

    /// Whether sums are complete with this part.
    pub(super) fn ends(&self, part: &Part<'_, E>) -> bool {
        part.depth.start == self.last
    }

    /// Multiplies strip by strip, and stores what is complete unless `multiply` says that it has done so.
    fn strips(
        &self,
        part: &Part<'_, E>,
        sums: &mut [E::Sum],
        mut multiply: impl FnMut(Range<usize>, &mut [E::Sum]) -> bool,
    ) {
        let ends = self.ends(part);
        for here in strips(self.kernel, &self.rows, self.a.are_lines()) {
            let first = if self.last > 0 { here.start - self.rows.start } else { 0 };
            let strip = &mut sums[first * self.stride..][..self.kernel.left.width * self.stride];
            if ends {
                self.sink.prefetch(here.clone(), self.columns.clone());
            }
            if !multiply(here.clone(), strip) && ends {
                let lines = Finished { values: &mut strip[..here.len() * self.stride], len: self.stride };
                self.sink.store_rows(here.start, self.columns.start, self.columns.len(), lines);
            }
        }
    }

    /// Multiplies a strip's panel.
    fn panel(&self, part: &Part<'_, E>, here: Range<usize>, left: &[E], sums: &mut [E::Sum]) -> bool {
        let long = part.depth.len();
        let at = (here.start - self.rows.start) * self.kernel.left.depth(long);
        let panel = &left[at..][..self.kernel.left.len(self.kernel.left.width, long)];
        self.sink.tiled(here, self.columns.clone(), false);
        tiles(self.kernel, panel, part.right, long, sums, self.stride, part.depth.start > 0);
        false
    }

    /// Multiplies a strip's rows as lines; tells whether tiles have stored the result.
    fn lines(&self, part: &Part<'_, E>, here: Range<usize>, buffer: &mut [E], sums: &mut [E::Sum]) -> bool {
        let ends = self.ends(part);
        let tile = self.kernel.by_lines(here.len());
        let lines = self.a.lines(here.clone(), part.depth.clone(), tile.rows, buffer);
        let depth = self.kernel.right.depth(part.depth.len());
        let lines = Strip { lines, depth, tile, _prepared: &self.prepared };
        let whole = ends && here.len() == tile.rows && self.columns.len() == self.stride;
        let place = if whole { self.sink.place(here.start, self.columns.start) } else { None };
        let finish = place.and_then(|place| lines.finish(place, self.stride));
        let stores = finish.is_some();
        let tiled = |from: usize, to: usize| {
            if ends {
                let columns = self.columns.start + from..self.columns.end.min(self.columns.start + to);
                self.sink.tiled(here.clone(), columns, stores);
            }
        };
        let right = (part.right, self.kernel.right.width);
        lines.multiply(right, sums, self.stride, part.depth.start > 0, finish, &tiled);
        stores
    }
}
