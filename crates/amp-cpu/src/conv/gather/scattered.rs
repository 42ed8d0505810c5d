//! Patches that tiles read where they lie, one tile of pixels after the other: each is multiplied by all kernels that stay in the L2
//! cache, and what is summed is rounded while it is in L1.
//!
//! On two threads of a Xeon with AMX, 3 x 3 over 128 channels of 16 by 16 (128 images) takes 2.8 ms where a panel of kernels after the
//! other took 3.1, and 4.6 before that, packed; 256 of 8 by 8, packed until images lay side by side, 2.8 and not 4.2, 512 of 4 by 4 2.8
//! and not 5.3.

use super::super::patch::Pixel;
use super::super::tile::{Convolve, Kernel, Rows};
use super::Part;
use crate::gemm;
use crate::gemm::kernel::{Finish, Multiply, Round, Scattered};
use crate::scratch;
use std::ops::Range;

/// Elements of kernels that are multiplied by one tile of pixels after the other: they stay in the L2 cache.
const RESIDENT: usize = 1 << 19;

impl<E: Convolve> Part<'_, E> {
    /// Computes a number of panels of outputs at once, one tile of pixels after the other, from patches that are read where they lie.
    pub(super) fn scattered(&self, gemm: &gemm::kernel::Kernel<E>, tile: Scattered<E>, data: &[E]) {
        let Kernel { columns, step, .. } = self.kernel;
        let depth: usize = self.plan.patches.iter().map(|patch| patch.depth.next_multiple_of(step)).sum();
        let at_once = (RESIDENT / (depth * columns).max(1)).clamp(1, self.panels.len());
        let _prepared = gemm.prepared();
        for first in self.panels.clone().step_by(at_once) {
            let panels = first..self.panels.end.min(first + at_once);
            match gemm.round.zip(self.rounded(panels.clone())) {
                Some((round, to)) => {
                    self.tiles(tile, panels, data, &mut |pixels, panel, sums| to.end(round, pixels, panel, sums));
                }
                None => scratch::with(panels.len() * self.of_panel(), |all: &mut [E::Sum]| {
                    self.tiles(tile, panels.clone(), data, &mut |pixels, panel, sums| {
                        for (pixel, sums) in pixels.iter().zip(sums.chunks_exact(columns)) {
                            all[panel * self.of_panel() + pixel.index * columns..][..columns].copy_from_slice(sums);
                        }
                    });
                    for (panel, sums) in panels.clone().zip(all.chunks_exact_mut(self.of_panel())) {
                        self.store(panel, sums);
                    }
                }),
            }
        }
    }

    /// Hands the sums of every tile over, with its pixels and the number of its panel; this thread is prepared for tiles.
    fn tiles(&self, tile: Scattered<E>, panels: Range<usize>, data: &[E], end: &mut End<E>) {
        let Kernel { rows, columns, step, .. } = self.kernel;
        for (patch, packed) in self.phases(panels.clone()) {
            let between = patch.even.expect("tiles read where patches lie evenly");
            let places = if patch.blocks.len() > 1 { panels.len() } else { 1 };
            scratch::with(places * rows * columns, |sums: &mut [E::Sum]| {
                for (i, class) in patch.classes.iter().enumerate() {
                    let steps = patch.blocks.iter().map(|block| block.steps(i, step)).collect();
                    let tiles = Tiles::new(&self.kernel, steps, [packed, data], panels.len(), patch.last[i].at);
                    for pixels in class.pixels.chunks_exact(rows) {
                        tiles.multiply((tile, between), pixels, sums, end);
                    }
                }
            });
        }
    }

    /// Where the results of some panels' outputs go, if tiles can round to there.
    fn rounded(&self, panels: Range<usize>) -> Option<Rounded<'_, E>> {
        let ((channel, _), (_, outputs)) = (self.outputs(panels.start), self.outputs(panels.end - 1));
        let columns = self.kernel.columns;
        if outputs < columns {
            return None;
        }
        let top = self.lattice.written(self.band).start * self.lattice.size[1];
        let place = [self.band.images.start, channel, top];
        let (to, bias) = self.target.rounded(place, panels.len() * columns, self.pixels())?;
        Some(Rounded { to, bias, columns, pixels: self.pixels() })
    }
}

/// Takes the sums of a tile's pixels and of a panel.
type End<'a, E> = dyn FnMut(&[Pixel], usize, &mut [<E as Multiply>::Sum]) + 'a;

/// What pixels that read the same taps are computed from.
struct Tiles<'a, E: Convolve> {
    kernel: &'a Kernel<E>,
    /// Of each block of the depth.
    steps: Vec<Vec<[usize; 2]>>,
    /// The first block that there is something of.
    first: Option<usize>,
    panels: Vec<&'a [E]>,
    data: &'a [E],
    /// The greatest place of a pixel in `data`.
    last: usize,
}

impl<'a, E: Convolve> Tiles<'a, E> {
    fn new(
        kernel: &'a Kernel<E>,
        steps: Vec<Vec<[usize; 2]>>,
        [packed, data]: [&'a [E]; 2],
        count: usize,
        last: usize,
    ) -> Self {
        let of_panel = packed.len() / count;
        let inside = |&[at, depth]: &[usize; 2]| {
            at + last + kernel.step <= data.len() && (depth + kernel.step) * kernel.columns <= of_panel
        };
        assert!(steps.iter().flatten().all(inside));
        let first = steps.iter().position(|steps| !steps.is_empty());
        let panels = (0..count).map(|i| &packed[i * of_panel..][..of_panel]).collect();
        Self { kernel, steps, first, panels, data, last }
    }

    /// Multiplies the patches of a tile's pixels by all panels, a block of the depth after the other; `sums` has a place for each
    /// panel if there are several blocks.
    fn multiply(
        &self,
        (tile, between): (Scattered<E>, usize),
        pixels: &[Pixel],
        sums: &mut [E::Sum],
        end: &mut End<E>,
    ) {
        let Kernel { rows, columns, .. } = *self.kernel;
        let halves = [&pixels[0], &pixels[rows / 2]].map(|pixel| self.data[pixel.at..].as_ptr());
        assert!(pixels.iter().all(|pixel| pixel.at <= self.last));
        for (i, steps) in self.steps.iter().enumerate() {
            for (j, panel) in self.panels.iter().enumerate() {
                let at = if self.steps.len() > 1 { j * rows * columns } else { 0 };
                let sums = &mut sums[at..][..rows * columns];
                if !steps.is_empty() {
                    // SAFETY: half a tile's pixels lie `between` apart ([`evenly`](super::super::patch::evenly)), and each step of all
                    // of them ends inside `data`, the panel has the columns of all steps (asserted, here and in `new`), `sums` the
                    // rows of a tile (cut to as many); a `Kernel` is only made for levels the CPU has, and the caller has prepared
                    // this thread.
                    unsafe { tile(steps, halves, between, panel.as_ptr(), sums.as_mut_ptr(), self.first < Some(i)) };
                } else if self.first.is_none() {
                    sums.fill(Default::default());
                }
                if i + 1 == self.steps.len() {
                    end(pixels, j, sums);
                }
            }
        }
    }
}

/// Where tiles round to.
struct Rounded<'a, E: Convolve> {
    to: Rows<E>,
    bias: &'a [E::Sum],
    columns: usize,
    /// How many there is room for.
    pixels: usize,
}

impl<E: Convolve> Rounded<'_, E> {
    /// Rounds the sums of a tile.
    fn end(&self, round: Round<E>, pixels: &[Pixel], panel: usize, sums: &[E::Sum]) {
        let Self { to: Rows { to, stride }, bias, columns, .. } = *self;
        let bias = bias.get(panel * columns..).unwrap_or_default();
        let between = pixels[1].index.wrapping_sub(pixels[0].index);
        let even =
            |pixels: &[Pixel]| pixels.windows(2).all(|pair| pair[1].index == pair[0].index.wrapping_add(between));
        let at_once =
            [pixels.len(), pixels.len() / 2].into_iter().find(|&len| pixels.chunks(len).all(even)).unwrap_or(1);
        for (pixels, sums) in pixels.chunks(at_once).zip(sums.chunks(at_once * columns)) {
            assert!(pixels.iter().all(|pixel| pixel.index < self.pixels) && sums.len() == pixels.len() * columns);
            let to = to.wrapping_add(pixels[0].index * stride + panel * columns);
            let stride = stride.wrapping_mul(between);
            // SAFETY: the rows of all pixels are writable there (asserted, and [`Target::rounded`]), by this thread alone: tasks differ
            // in group, outputs, image or rows. There are sums for each of them (asserted), and a `Kernel` is only made for levels
            // that the CPU has.
            unsafe { round(sums.as_ptr(), pixels.len(), Finish { to, stride, bias }) };
        }
    }
}
