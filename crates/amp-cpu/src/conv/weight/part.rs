//! Some pixels' part of a gradient: strips of its columns, and how their sums are stored.

use super::super::lattice::{Band, Lattice};
use super::super::tile::{Convolve, Kernel};
use crate::gemm::kernel::Multiply;
use crate::gemm::product::{PER_CYCLE, Threads};
use crate::output::{Finished, Output};
use crate::transpose::transpose;
use crate::{parallel, scratch};

/// Elements of sums that are turned at a time, and of panels of the gradient that every tap multiplies in turn: they stay in L2.
const TURNED: usize = 1 << 16;
const GRAD: usize = 1 << 19;

/// The pixels of a band and the outputs of a group.
pub(super) struct Part<'a, E: Convolve> {
    pub kernel: Kernel<E>,
    pub lattice: &'a Lattice,
    pub band: &'a Band,
    /// First output channel, and how many.
    pub outputs: [usize; 2],
    pub sums: Output<'a>,
    /// Where the group's sums begin: `[outputs][taps][inputs]`.
    pub start: usize,
    /// Whether there are sums already.
    pub accumulate: bool,
    /// Whether they are turned, as kernels list them: `[outputs][inputs][taps]`.
    pub turned: bool,
    pub threads: Threads,
}

/// Neighbouring columns of the sums.
pub(super) struct Strip {
    /// Place of the first.
    pub first: usize,
    /// Columns of all strips together.
    pub total: usize,
    /// Distance of their elements from the pixel, or the first one's channel.
    pub at: usize,
    /// How many they are.
    pub len: usize,
}

/// Computes the sums of a strip's columns for the outputs from a panel on, as many as there is room for.
pub(super) type Sum<'a, E> = dyn Fn(&Strip, usize, &mut [<E as Multiply>::Sum]) + Sync + 'a;

impl<E: Convolve> Part<'_, E> {
    /// Multiply-adds of the part, if there are threads for them.
    pub(super) fn work(&self, inputs: usize) -> usize {
        self.threads.share(self.outputs[1] * self.lattice.taps() * inputs * self.pixels() / PER_CYCLE)
    }

    /// Pixels of the band.
    fn pixels(&self) -> usize {
        self.band.images.len() * self.band.rows.len() * self.lattice.grid[1]
    }

    /// Stores the sums of all strips: `sum` computes those of a strip's columns for outputs from a panel on.
    pub(super) fn store(&self, strips: &[Strip], inputs: usize, work: usize, sum: &Sum<E>) {
        if self.turned {
            let blocks = inputs / self.kernel.columns;
            return parallel::for_each(blocks, work, |block| {
                let strips: Vec<&Strip> = strips.iter().skip(block).step_by(blocks).collect();
                self.kernels(&strips, sum);
            });
        }
        parallel::for_each(strips.len(), work, |i| self.strip(&strips[i], sum));
    }

    /// Stores the gradient of all taps' kernels for the channels of their strips.
    ///
    /// Some outputs at a time, so that what is turned has not left the L2 cache: of 512 channels, 4 by 4 of 32 images, the
    /// gradient takes 0.85 of the time that writing all sums and turning them afterwards took.
    fn kernels(&self, strips: &[&Strip], sum: &Sum<E>) {
        let (Kernel { rows, columns, .. }, taps) = (self.kernel, strips.len());
        let (outputs, row) = (self.outputs[1], strips[0].total);
        let at_once = (TURNED / (taps * columns)).min(GRAD / self.pixels().max(1)).max(1).next_multiple_of(rows);
        scratch::with(taps * columns * (at_once + 1), |buffer: &mut [E::Sum]| {
            let (turned, sums) = buffer.split_at_mut(taps * columns);
            for first in (0..outputs).step_by(at_once) {
                let count = at_once.min(outputs - first);
                let of_tap = count.next_multiple_of(rows) * columns;
                for (strip, sums) in strips.iter().zip(sums.chunks_exact_mut(of_tap)) {
                    sum(strip, first / rows, sums);
                }
                for output in 0..count {
                    transpose(&sums[output * columns..], of_tap, [taps, columns], turned, taps);
                    let at = self.start + (first + output) * row + strips[0].first * taps;
                    // SAFETY: every group has its own outputs, every block of strips its own channels.
                    unsafe {
                        match self.accumulate {
                            true => self.sums.accumulate(at, 1, turned),
                            false => self.sums.store(at, 1, turned),
                        }
                    }
                }
            }
        });
    }

    /// Adds the sums of one strip of columns for all outputs.
    fn strip(&self, strip: &Strip, sum: &Sum<E>) {
        let Kernel { rows, columns, .. } = self.kernel;
        scratch::with(self.outputs[1].next_multiple_of(rows) * columns, |sums: &mut [E::Sum]| {
            sum(strip, 0, sums);
            let (start, rows) = (self.start + strip.first, &mut sums[..self.outputs[1] * columns]);
            // SAFETY: every part has its own sums, every group its own rows and every strip its own columns.
            unsafe {
                if self.accumulate {
                    for (output, sums) in rows.chunks_exact(columns).enumerate() {
                        self.sums.accumulate(start + output * strip.total, 1, &sums[..strip.len]);
                    }
                } else {
                    let lines = Finished { values: rows, len: columns };
                    self.sums.store_rows(start, strip.total, strip.len, &[], lines);
                }
            }
        });
    }
}
