//! A task whose right side stays in the L2 cache: one strip of rows after the other is multiplied by all of it.
//!
//! Going through the depth part by part, as [`super::task`] does, reads and writes the sums of a whole block with each part, and
//! the right side comes from the L3 cache again for the next rows. AMX is too fast for either; F32 with AVX-512
//! ([`super::avx512`]) gains a tenth as well. Here there are only the sums of one strip at a time. Those of a tile lie together,
//! so that their rows share no set of the L1 cache, and a tile that ends is rounded while it is there.
//!
//! On a Xeon with AMX, prefetching the rows of the result with each tile made 2048 × 384 by 384 × 1536 a quarter slower and 1024³
//! 3 %, prefetching those of the left side 10 and 3 %: tiles wait for lines of the L2 cache behind those that come from further
//! away. Only a left side that was packed in advance is prefetched, a line between every two or three instructions of a tile
//! ([`MicroKernel::ahead`](super::kernel::MicroKernel::ahead)): 4096³ of F32 rounded to BF16 takes 0.85 of the time, 2048³ of F16
//! 0.8. Rows that lie far apart gain nothing, for each of them has a page that the processor reads ahead in by itself. More in
//! `benches/record/findings.md`.

use super::kernel::{Multiply, Rows};
use super::strip::strips;
use super::task::{Part, Task};
use crate::output::Finished;
use crate::scratch;
use std::ops::Range;

impl<E: Multiply> Task<'_, E> {
    /// Computes the block.
    pub(super) fn run_resident(&self) {
        let (mr, longest) = (self.kernel.left.width, self.kernel.left.depth(self.depth.min(self.long)));
        let of_right = if self.b.whole.is_some() { 0 } else { self.stride * self.kernel.right.depth(self.depth) };
        scratch::with(of_right + mr * longest, |packed: &mut [E]| {
            let (of_right, of_left) = packed.split_at_mut(of_right);
            let parts = self.parts(of_right);
            scratch::with(mr * self.stride, |sums: &mut [E::Sum]| {
                for rows in strips(self.kernel, &self.rows, self.a.are_lines()) {
                    parts.iter().for_each(|part| self.piece(&rows, part, of_left, sums));
                }
            });
        });
    }

    /// All parts of the depth with their panels, from `buffer` where they have to be packed.
    fn parts<'b>(&'b self, mut buffer: &'b mut [E]) -> Vec<Part<'b, E>> {
        let part = |start: usize| {
            let depth = start..self.depth.min(start + self.long);
            let len = if buffer.is_empty() { 0 } else { self.stride * self.kernel.right.depth(depth.len()) };
            let (here, rest) = std::mem::take(&mut buffer).split_at_mut(len);
            buffer = rest;
            Part { right: self.b.block(self.columns.clone(), depth.clone(), here), depth }
        };
        (0..=self.last).step_by(self.long).map(part).collect()
    }

    /// Multiplies some depth of a strip's rows by all panels, and hands over the tiles that are complete.
    fn piece(&self, rows: &Range<usize>, part: &Part<'_, E>, buffer: &mut [E], sums: &mut [E::Sum]) {
        let (mr, nr) = (self.kernel.left.width, self.kernel.right.width);
        let depth = self.kernel.right.depth(part.depth.len());
        let (accumulate, ends) = (part.depth.start > 0, self.ends(part));
        let (left, apart) = if self.a.are_lines() {
            let lines = self.a.lines(rows.clone(), part.depth.clone(), mr, buffer);
            (lines.elements, lines.stride)
        } else {
            (self.a.block(rows.clone(), part.depth.clone(), buffer), 0)
        };
        let next = self.ahead(rows, part);
        let direct = if next.is_some() { self.kernel.ahead } else { None }.or(self.kernel.direct);
        let direct = direct.filter(|_| self.a.are_lines());
        let panels = part.right.len() / (depth * nr);
        assert!(if direct.is_some() { (mr - 1) * apart + depth } else { mr * depth } <= left.len());
        // Tiles that need no later part have one place in turn: 96 products of 256 × 64 by 64 × 256, whose sums of a strip would
        // fill the L1 cache, take 0.8 of the time.
        let whole = ends && !accumulate;
        for (i, (column, b)) in self.columns.clone().step_by(nr).zip(part.right.chunks_exact(depth * nr)).enumerate() {
            let c = &mut sums[if whole { 0 } else { i * mr * nr }..][..mr * nr];
            // SAFETY: `b` is a whole panel (`chunks_exact`), the left side has `mr` lines or a panel as deep (asserted), `c` has
            // the rows of a tile one after the other (cut to as many elements), a `MicroKernel` is only made for levels the CPU has, and
            // this thread is prepared for it.
            unsafe {
                match direct {
                    Some(tile) => {
                        let next = next.unwrap_or(left.as_ptr()).wrapping_add(i * mr * depth / panels);
                        let rows = Rows { start: left.as_ptr(), stride: apart, next };
                        tile(depth, rows, b.as_ptr(), c.as_mut_ptr(), nr, accumulate);
                    }
                    None => (self.kernel.tile)(depth, left.as_ptr(), b.as_ptr(), c.as_mut_ptr(), nr, accumulate),
                }
            }
            if ends {
                self.hand_over(rows, column, c);
            }
        }
    }

    /// What comes after a part of a strip, where it was packed in advance: the next part, or the first one of the rows below.
    fn ahead(&self, rows: &Range<usize>, part: &Part<'_, E>) -> Option<*const E> {
        let (row, start) = if self.ends(part) { (rows.end, 0) } else { (rows.start, part.depth.end) };
        self.a.ahead(row, start..self.depth.min(start + self.long)).filter(|_| self.a.lines.is_none())
    }

    /// Rounds a tile to where it belongs, or leaves it to the sink.
    pub(super) fn hand_over(&self, rows: &Range<usize>, column: usize, sums: &mut [E::Sum]) {
        let nr = self.kernel.right.width;
        let (columns, sums) = (nr.min(self.columns.end - column), &mut sums[..rows.len() * nr]);
        let round = self.kernel.round.filter(|_| columns == nr).zip(self.sink.place(rows.start, column));
        if let Some((round, place)) = round
            && let Some(finish) = place.finish(rows.len(), nr)
        {
            // SAFETY: so many rows of sums are there (cut), those of the result are writable ([`Output::rows`]) and this task's
            // alone ([`Sink`]), and a `MicroKernel` is only made for levels the CPU has.
            return unsafe { round(sums.as_ptr(), 0, [rows.len(), 1], finish) };
        }
        let lines = Finished { values: sums, len: nr };
        self.sink.store_rows(rows.start, column, columns, lines);
    }
}
