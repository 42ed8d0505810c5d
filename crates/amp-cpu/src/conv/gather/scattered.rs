//! Convolution by tiles whose steps of the depth may lie anywhere (AMX). The patches of one tile of pixels at a time are multiplied
//! by all kernels that stay in the L2 cache, and their sums are rounded while they are in L1. Patches are read where they lie or,
//! where a step is no whole tap or pixels do not lie evenly, copied to lines ([`super::super::lines`]).
//!
//! On two threads of a Xeon with AMX, 3 x 3 over 128 channels of 16 by 16 (128 images) takes 2.8 ms where a panel of kernels after the
//! other took 3.1, and 4.6 before that, packed; 256 of 8 by 8, packed until images lay side by side, 2.8 and not 4.2, 512 of 4 by 4 2.8
//! and not 5.3.

use super::super::lines::{self, Line};
use super::super::patch::{Block, Patch, Pixel};
use super::super::tile::{Convolve, Kernel, Rows};
use super::Part;
use crate::gemm;
use crate::gemm::kernel::{Finish, Multiply, Round, Scattered};
use crate::scratch;
use std::ops::Range;

/// Elements of kernels that are multiplied by one tile of pixels after the other: they stay in the L2 cache.
const RESIDENT: usize = 1 << 19;
/// Tiles of outputs that are rounded together.
const TOGETHER: usize = 4;

impl<E: Convolve> Part<'_, E> {
    /// Computes a number of panels of outputs at once, one tile of pixels after the other.
    pub(super) fn scattered(&self, gemm: &gemm::kernel::MicroKernel<E>, data: &[E]) {
        let tile = gemm.scattered.expect("kernels that take no vectors of pixels take steps from anywhere");
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
                    self.tiles(tile, panels.clone(), data, &mut |pixels, first, sums| {
                        for (panel, sums) in (first..).zip(sums.chunks_exact(pixels.len() * columns)) {
                            let sums = pixels.iter().zip(sums.chunks_exact(columns));
                            for (pixel, sums) in sums.filter(|(pixel, _)| pixel.index != Pixel::NONE) {
                                all[panel * self.of_panel() + pixel.index * columns..][..columns].copy_from_slice(sums);
                            }
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
            let places = if patch.blocks.len() > 1 { panels.len() } else { TOGETHER.min(panels.len()) };
            let deepest = patch.blocks.iter().map(|block| block.depth.next_multiple_of(step)).max().unwrap_or(0);
            let of_lines = if patch.even.is_some() { 0 } else { rows * deepest };
            scratch::with(of_lines, |lines: &mut [E]| {
                scratch::with(places * rows * columns, |sums: &mut [E::Sum]| {
                    for (class, members) in patch.classes.iter().enumerate() {
                        let tiles = Tiles::new(&self.kernel, patch, class, [packed, data], panels.len());
                        for pixels in members.pixels.chunks_exact(rows) {
                            tiles.multiply(tile, pixels, lines, sums, end);
                        }
                    }
                });
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
        let (to, bias) = self.target.rounded(self.place(channel), panels.len() * columns, self.pixels())?;
        Some(Rounded { to, bias, columns, pixels: self.pixels() })
    }
}

/// Takes the sums of a tile's pixels and of a panel.
type End<'a, E> = dyn FnMut(&[Pixel], usize, &mut [<E as Multiply>::Sum]) + 'a;

/// What pixels that read the same taps are computed from.
struct Tiles<'a, E: Convolve> {
    kernel: &'a Kernel<E>,
    blocks: Vec<Steps>,
    /// The first block that there is something of.
    first: Option<usize>,
    panels: Vec<&'a [E]>,
    data: &'a [E],
    /// The greatest place of a pixel in `data`.
    last: usize,
}

/// The steps of a block: where each lies on the left side and in a panel.
struct Steps {
    all: Vec<[usize; 2]>,
    left: Left,
}

/// Where a tile reads its left side.
enum Left {
    /// Pixels of half a tile lie so far apart in the plane.
    Plane(usize),
    /// Lines of these steps.
    Lines(Vec<Line>),
}

impl<'a, E: Convolve> Tiles<'a, E> {
    fn new(kernel: &'a Kernel<E>, patch: &Patch, class: usize, [packed, data]: [&'a [E]; 2], count: usize) -> Self {
        let (of_panel, step, last) = (packed.len() / count, kernel.step, patch.last[class].at);
        let steps = |block: &Block| {
            if let Some(between) = patch.even {
                return Steps { all: block.steps(class, step), left: Left::Plane(between) };
            }
            let lines = lines::of(block, class, step);
            Steps {
                all: lines.iter().enumerate().map(|(i, line)| [i * step, line.depth]).collect(),
                left: Left::Lines(lines),
            }
        };
        let blocks: Vec<Steps> = patch.blocks.iter().map(steps).collect();
        let inside = |&[at, depth]: &[usize; 2]| {
            (patch.even.is_none() || at + last + step <= data.len()) && (depth + step) * kernel.columns <= of_panel
        };
        assert!(blocks.iter().all(|block| block.all.iter().all(inside)));
        let first = blocks.iter().position(|block| !block.all.is_empty());
        let panels = (0..count).map(|i| &packed[i * of_panel..][..of_panel]).collect();
        Self { kernel, blocks, first, panels, data, last }
    }

    /// Multiplies the patches of a tile's pixels by all panels, a block of the depth after the other; `sums` has a place for each
    /// panel if there are several blocks, `lines` room for those of a block.
    fn multiply(&self, tile: Scattered<E>, pixels: &[Pixel], lines: &mut [E], sums: &mut [E::Sum], end: &mut End<E>) {
        let Kernel { rows, columns, step, .. } = *self.kernel;
        assert!(pixels.iter().all(|pixel| pixel.at <= self.last));
        for (i, block) in self.blocks.iter().enumerate() {
            let steps = &block.all;
            let (halves, between) = match &block.left {
                Left::Plane(between) => {
                    ([&pixels[0], &pixels[rows / 2]].map(|pixel| self.data[pixel.at..].as_ptr()), *between)
                }
                Left::Lines(of_pixel) => {
                    let depth = step * steps.len();
                    let lines = &mut lines[..rows * depth];
                    lines::pack(of_pixel, self.data, pixels, lines);
                    ([&lines[..], &lines[rows / 2 * depth..]].map(<[E]>::as_ptr), depth)
                }
            };
            for (j, panel) in self.panels.iter().enumerate() {
                let place = if self.blocks.len() > 1 { j } else { j % TOGETHER };
                let here = &mut sums[place * rows * columns..][..rows * columns];
                if !steps.is_empty() {
                    // SAFETY: half a tile's pixels lie `between` apart in `data` ([`evenly`](super::super::patch::evenly)), where each
                    // step of all of them ends inside (asserted, here and in `new`), or they are lines of all steps; the panel has the
                    // columns of all steps (asserted in `new`), `sums` the rows of a tile (cut to as many); a `Kernel` is only made
                    // for levels the CPU has, and the caller has prepared this thread.
                    unsafe { tile(steps, halves, between, panel.as_ptr(), here.as_mut_ptr(), self.first < Some(i)) };
                } else if self.first.is_none() {
                    here.fill(Default::default());
                }
                let tiles = j % TOGETHER + 1;
                if i + 1 == self.blocks.len() && (tiles == TOGETHER || j + 1 == self.panels.len()) {
                    end(
                        pixels,
                        j + 1 - tiles,
                        &mut sums[(place + 1 - tiles) * rows * columns..(place + 1) * rows * columns],
                    );
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
        let (of_tile, tiles) = (pixels.len() * self.columns, sums.len() / (pixels.len() * self.columns));
        let Self { to: Rows { to, stride }, bias, columns, .. } = *self;
        let bias = bias.get(panel * columns..).unwrap_or_default();
        let mut rest = pixels;
        while let Some((first, others)) = rest.split_first() {
            let at = (pixels.len() - rest.len()) * columns;
            if first.index == Pixel::NONE {
                rest = others;
                continue;
            }
            let between = others.first().map_or(1, |second| second.index.wrapping_sub(first.index));
            let next =
                |pair: &&[Pixel]| pair[1].index.wrapping_sub(pair[0].index) == between && pair[1].index != Pixel::NONE;
            let (run, after) = rest.split_at(1 + rest.windows(2).take_while(next).count());
            rest = after;
            assert!(run.iter().all(|pixel| pixel.index < self.pixels) && sums.len() == tiles * of_tile);
            let (sums, to) = (&sums[at..], to.wrapping_add(first.index * stride + panel * columns));
            let stride = stride.wrapping_mul(between);
            // SAFETY: the rows of all pixels are writable there (asserted, and [`Target::rounded`]), by this thread alone: tasks differ
            // in group, outputs, image or rows. There are sums for each of them (asserted), and a `Kernel` is only made for levels
            // that the CPU has.
            unsafe { round(sums.as_ptr(), of_tile, [run.len(), tiles], Finish { to, stride, bias }) };
        }
    }
}
