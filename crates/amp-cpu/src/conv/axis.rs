//! Which positions along an axis a band of pixels reads.

use super::lattice::{Phase, Tap};
use std::ops::Range;

/// The positions along one axis of the source that a band reads, in order.
///
/// Positions come in rounds of one step; of each round those are left out that no tap reads.
pub(super) struct Axis {
    /// Position that the first pixel's lowest tap reads.
    first: isize,
    /// The lowest tap.
    lowest: isize,
    /// Source positions from pixel to pixel.
    pub step: usize,
    /// The positions of a round, relative to its first.
    residues: Vec<usize>,
    /// Number of positions.
    pub len: usize,
}

impl Axis {
    pub(super) fn new(phases: &[Phase], along: fn(&Tap) -> isize, grid: Range<usize>, step: usize) -> Self {
        let taps = || phases.iter().flat_map(|phase| phase.taps.iter().map(along));
        let lowest = taps().min().unwrap_or(0);
        let mut residues: Vec<usize> = taps().map(|tap| (tap - lowest) as usize % step).collect();
        residues.sort_unstable();
        residues.dedup();
        let mut axis = Self { first: (grid.start * step) as isize + lowest, lowest, step, residues, len: 0 };
        let last = taps().map(|tap| axis.index(tap)).max();
        axis.len = last.map_or(0, |last| (grid.len() - 1) * axis.pace() + last + 1);
        axis
    }

    /// Positions of a round: indices from pixel to pixel.
    pub(super) fn pace(&self) -> usize {
        self.residues.len()
    }

    /// Round and rank in it of what the first pixel reads with a tap.
    fn place(&self, tap: isize) -> (usize, usize) {
        let distance = (tap - self.lowest) as usize;
        (distance / self.step, self.residues.partition_point(|&residue| residue < distance % self.step))
    }

    /// Index of what the first pixel reads with a tap.
    pub(super) fn index(&self, tap: isize) -> usize {
        let (round, rank) = self.place(tap);
        round * self.pace() + rank
    }

    /// Source position of an index.
    pub(super) fn position(&self, index: usize) -> isize {
        let (round, rank) = (index / self.pace(), index % self.pace());
        self.first + (round * self.step + self.residues[rank]) as isize
    }

    /// Source position of an index, if it is one of `0..size`.
    pub(super) fn within(&self, index: usize, size: usize) -> Option<usize> {
        usize::try_from(self.position(index)).ok().filter(|&position| position < size)
    }

    /// The rounds of which the position of a rank is one of `0..size`.
    pub(super) fn inside(&self, rank: usize, size: usize) -> Range<usize> {
        let rounds = (self.len - rank).div_ceil(self.pace());
        let first = self.first + self.residues[rank] as isize;
        let reached = |position: isize| ((position - first).max(0) as usize).div_ceil(self.step).min(rounds);
        reached(0)..reached(size as isize)
    }

    /// The indices whose positions are one of `0..size`, where no position is left out.
    pub(super) fn inside_all(&self, size: usize) -> Range<usize> {
        let reached = |position: isize| ((position - self.first).max(0) as usize).min(self.len);
        reached(0)..reached(size as isize)
    }
}
