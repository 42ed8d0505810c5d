//! Where the channels of a band lie in the scratch.

use super::super::lattice::{Lattice, Tap};
use super::patch::Patch;
use crate::simd::LANES;
use std::ops::Range;

/// The planes of a channel: one for each remainder of the source position by the step that some tap reads.
///
/// The pixels that neighbouring sums read with the same tap are neighbours in a plane. Its lines are source pixels and
/// zeros, which serve as the end of a line and as the beginning of the next.
pub(super) struct Planes {
    /// Source positions from pixel to pixel.
    pub step: [usize; 2],
    /// The remainders (row, column) of each plane.
    pub remainders: Vec<[usize; 2]>,
    /// Height and width of the source.
    pub size: [usize; 2],
    /// Lines before the one that the first row of pixels has its own row of the source in.
    top: usize,
    /// Number of lines.
    pub lines: usize,
    /// Elements from line to line.
    pub line: usize,
    /// Zeros before the first line.
    pub lead: usize,
}

impl Planes {
    /// Planes of which bands of `rows` rows of pixels are computed, for images of a height and width.
    pub(super) fn new(lattice: &Lattice, size: [usize; 2], rows: usize) -> Self {
        let taps = || lattice.phases.iter().flat_map(|phase| &phase.taps);
        let step = lattice.step;
        let down = |tap: &Tap| tap.y.div_euclid(step[0] as isize);
        let across = |tap: &Tap| tap.x.div_euclid(step[1] as isize);
        let mut remainders: Vec<[usize; 2]> = taps().map(|tap| remainders(tap, step)).collect();
        remainders.sort_unstable();
        remainders.dedup();
        let above = |least: isize| (-least).max(0) as usize;
        let (top, lead) = (above(taps().map(down).min().unwrap_or(0)), above(taps().map(across).min().unwrap_or(0)));
        let bottom = taps().map(down).max().unwrap_or(0).max(0) as usize;
        let right = taps().map(across).max().unwrap_or(0).max(0) as usize;
        let line = (size[1].div_ceil(step[1]) + lead).max(lattice.grid[1] + right).next_multiple_of(LANES);
        let lead = lead.next_multiple_of(LANES);
        Self { step, remainders, size, top, lines: top + rows + bottom, line, lead }
    }

    /// Elements of one plane.
    pub(super) fn len(&self) -> usize {
        self.lead + self.lines * self.line
    }

    /// Elements of the planes of a channel.
    pub(super) fn of_channel(&self) -> usize {
        self.remainders.len() * self.len()
    }

    /// Where the first pixel of a band reads a channel with a tap.
    pub(super) fn offset(&self, channel: usize, tap: &Tap) -> usize {
        let plane = self.remainders.partition_point(|other| *other < remainders(tap, self.step));
        let down = tap.y.div_euclid(self.step[0] as isize) + self.top as isize;
        let across = tap.x.div_euclid(self.step[1] as isize) + self.lead as isize;
        (channel * self.remainders.len() + plane) * self.len() + down as usize * self.line + across as usize
    }

    /// One after the last element that `rows` by `width` pixels read with a patch.
    #[inline(always)]
    pub(super) fn reach(&self, patch: &Patch, rows: usize, width: usize) -> usize {
        if patch.elements.is_empty() { 0 } else { patch.last + (rows - 1) * self.line + width }
    }

    /// What is in the lines of each plane, for the band that begins with row `start` of pixels.
    pub(super) fn rows_of_planes(&self, start: usize) -> Vec<Rows> {
        let loaded = self.rows(start).start;
        let of_plane = |&[down, across]: &[usize; 2]| {
            let count = self.size[0].saturating_sub(down).div_ceil(self.step[0]);
            let line = |row: usize| (row + self.top).saturating_sub(start).min(self.lines);
            let lines = line(0)..line(if across < self.size[1] { count } else { 0 });
            let row = (start + lines.start).saturating_sub(self.top) * self.step[0] + down;
            let first = if lines.is_empty() { 0 } else { (row - loaded) * self.size[1] + across };
            Rows { lines, first, count: self.size[1].saturating_sub(across) }
        };
        self.remainders.iter().map(of_plane).collect()
    }

    /// Rows of the source on any of the lines.
    pub(super) fn rows(&self, start: usize) -> Range<usize> {
        let at = |line: usize| ((start + line).saturating_sub(self.top) * self.step[0]).min(self.size[0]);
        at(0)..at(self.lines)
    }
}

/// Rows of the source in a plane; the other lines are zeros.
pub(super) struct Rows {
    /// The lines that have one.
    pub lines: Range<usize>,
    /// Where the first of these rows begins in the part of a channel that [`Planes::rows`] says.
    pub first: usize,
    /// Pixels from there to the end of the row.
    pub count: usize,
}

fn remainders(tap: &Tap, step: [usize; 2]) -> [usize; 2] {
    [tap.y.rem_euclid(step[0] as isize) as usize, tap.x.rem_euclid(step[1] as isize) as usize]
}
