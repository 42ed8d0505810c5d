//! Convolution over a lattice: patches, read where they lie in scratch planes, times packed kernels.

mod scattered;

use super::images::Images;
use super::lattice::{Band, Lattice, Phase};
use super::pack::Weights;
use super::patch::Patch;
use super::plan::{Plan, Plans, bands};
use super::target::{TURNED, Target};
use super::tile::{Convolve, End, Ends, Kernel, Patches, Reading, Rows};
use crate::gemm::product::PER_CYCLE;
use crate::simd::Level;
use crate::transpose::transpose;
use crate::{MemoryOrder, View, parallel, scratch};
use std::ops::Range;

/// Tasks wanted at least, so that a few threads have something to do.
const TASKS: usize = 8;

/// Computes the target from all channels of `source`; `of_group` is the kernels of a group.
pub(super) fn gather<'a, E: Convolve>(
    source: &View,
    of_group: &(dyn Fn(usize) -> Weights<'a, E> + Sync),
    groups: usize,
    lattice: &Lattice,
    target: &Target<E::Sum>,
) {
    gather_with(E::convolve(Level::current()), source, of_group, groups, lattice, target);
}

/// [`gather`] with a given kernel.
pub(super) fn gather_with<'a, E: Convolve>(
    kernel: Kernel<E>,
    source: &View,
    of_group: &(dyn Fn(usize) -> Weights<'a, E> + Sync),
    groups: usize,
    lattice: &Lattice,
    target: &Target<E::Sum>,
) {
    let channels = source.layout.shape[1] / groups;
    let bands = bands(&kernel, lattice, source.layout.shape[0], channels);
    let plans = Plans::new(&kernel, lattice, &bands, channels, Images::new(source).size);
    let depth = channels.next_multiple_of(kernel.padding());
    let panels = target.per_group.div_ceil(kernel.columns);
    let pixels = lattice.grid.iter().product::<usize>() * source.layout.shape[0];
    let splits = TASKS.div_ceil((groups * bands.len()).max(1)).min(panels);
    let padded = |phase: &Phase| panels * kernel.columns * (phase.taps.len() * depth).next_multiple_of(kernel.step);
    let whole = lattice.phases.iter().map(padded).sum::<usize>();
    scratch::with(groups * whole, |packed: &mut [E]| {
        for (group, packed) in packed.chunks_exact_mut(whole.max(1)).enumerate() {
            let mut rest = packed;
            for phase in &lattice.phases {
                let (packed, after) = rest.split_at_mut(padded(phase));
                of_group(group).pack(&kernel, phase, packed);
                rest = after;
            }
        }
        let work = groups * pixels * target.per_group * depth * lattice.taps().max(1) / PER_CYCLE;
        parallel::for_each(groups * bands.len() * splits, work, |task| {
            let (group, band, split) =
                (task / splits / bands.len(), &bands[task / splits % bands.len()], task % splits);
            let part = Part {
                kernel,
                lattice,
                band,
                plan: plans.of(band),
                group,
                panels: panels * split / splits..panels * (split + 1) / splits,
                packed: &packed[group * whole..][..whole],
                target,
            };
            part.compute(source, channels);
        });
    });
}

/// Some outputs of a group, of the pixels of a band.
struct Part<'a, E: Convolve> {
    kernel: Kernel<E>,
    lattice: &'a Lattice,
    band: &'a Band,
    plan: &'a Plan,
    group: usize,
    panels: Range<usize>,
    /// Panels of each phase.
    packed: &'a [E],
    target: &'a Target<'a, E::Sum>,
}

impl<E: Convolve> Part<'_, E> {
    fn compute(&self, source: &View, channels: usize) {
        let planes = &self.plan.planes;
        scratch::with(planes.len(self.band) + self.plan.behind, |data: &mut [E]| {
            planes.fill(source, self.band, self.group * channels, data);
            match self.kernel.reading {
                Reading::Direct(patches, _) => self.direct(patches, data),
                Reading::Packed(gemm) => self.scattered(&gemm, data),
            }
        });
    }

    /// Computes one panel of outputs after the other from patches that are read where they lie.
    fn direct(&self, patches: [Patches<E>; 2], data: &[E]) {
        scratch::with(self.of_panel(), |sums: &mut [E::Sum]| {
            for panel in self.panels.clone() {
                let (finish, form) = (self.finish(panel), self.kernel.form(self.outputs(panel).1));
                for (patch, packed) in self.phases(panel..panel + 1) {
                    self.strip(patches[form], packed, data, patch, sums, finish);
                }
                if finish.is_none() {
                    self.store(panel, sums);
                }
            }
        });
    }

    /// The patches of each phase, and some of its panels.
    fn phases(&self, panels: Range<usize>) -> impl Iterator<Item = (&Patch, &[E])> {
        let Kernel { columns, step, .. } = self.kernel;
        let mut rest = self.packed;
        self.plan.patches.iter().map(move |patch| {
            let depth = patch.depth.next_multiple_of(step) * columns;
            let (packed, after) = rest.split_at(self.target.per_group.div_ceil(columns) * depth);
            rest = after;
            (patch, &packed[panels.start * depth..panels.end * depth])
        })
    }

    /// Pixels of the band that are computed.
    fn pixels(&self) -> usize {
        self.band.images.len() * self.image()
    }

    /// Sums of a panel's outputs, those of whole tiles.
    fn of_panel(&self) -> usize {
        self.pixels().next_multiple_of(self.kernel.rows) * self.kernel.columns
    }

    /// Pixels of an image that are computed.
    fn image(&self) -> usize {
        self.lattice.written(self.band).len() * self.lattice.size[1]
    }

    /// Where tiles store the sums of a panel's outputs, all of the band's pixels', if they can.
    fn finish(&self, panel: usize) -> Option<Ends<E::Sum, E::Result>> {
        let (channel, outputs) = self.outputs(panel);
        let columns = self.kernel.computed(outputs);
        if outputs < columns {
            return None;
        }
        self.target.finish(self.place(channel), columns, self.pixels())
    }

    /// Image, channel and pixel from which on the band's results lie.
    fn place(&self, channel: usize) -> [usize; 3] {
        [self.band.images.start, channel, self.lattice.written(self.band).start * self.lattice.size[1]]
    }

    /// Sums of a phase's pixels for the outputs of one panel, `[pixels][columns]`, or finished.
    ///
    /// A tile that rounds its sums itself, when its last block ends, stores half the bytes and nothing is read again: in BF16 on a
    /// core of Zen 5 3 x 3 over 64 channels takes 4 to 7 % less time, over 128 2 to 3 %, over more 0 to 2 %, 1 x 1 by steps of
    /// two 10 to 25 %.
    fn strip(
        &self,
        patches: Patches<E>,
        panel: &[E],
        data: &[E],
        patch: &Patch,
        sums: &mut [E::Sum],
        finish: Option<Ends<E::Sum, E::Result>>,
    ) {
        let Kernel { rows, columns, .. } = self.kernel;
        let count = self.pixels();
        assert!(patch.last.iter().all(|last| last.index < count) && count * columns <= sums.len());
        let between = Rows { to: sums.as_mut_ptr(), stride: columns };
        let onto = finish.and_then(|finish| finish.begin);
        for (i, block) in patch.blocks.iter().enumerate() {
            let panel = &panel[block.start * columns..];
            for (j, (class, runs)) in patch.classes.iter().zip(&block.runs).enumerate() {
                let rest = patch.blocks[i + 1..].iter().any(|block| !block.runs[j].is_empty());
                // Pixels that read nothing have sums too, unless these are added to others.
                if runs.is_empty() && (i > 0 || rest || onto.is_some()) {
                    continue;
                }
                assert!(runs.iter().all(|run| {
                    patch.last[j].at + run.at + run.len <= data.len() && run.start + run.len <= panel.len() / columns
                }));
                let begun = patch.blocks[..i].iter().any(|block| !block.runs[j].is_empty());
                let ends = Ends {
                    begin: if begun { Some(between) } else { onto },
                    end: finish.filter(|_| !rest).map_or(End::Sums(between), |finish| finish.end),
                };
                let expected = onto.filter(|_| !begun);
                for (tile, pixels) in class.pixels.chunks_exact(rows).enumerate() {
                    if let (Some(onto), Some(next)) = (expected, class.pixels.get((tile + 1) * rows..)) {
                        next.iter().take(rows).for_each(|pixel| onto.prefetch(pixel, columns));
                    }
                    // SAFETY: the runs of every pixel end inside `data` and the panel holds the columns of all of them, each
                    // pixel has its place in `sums` (asserted), so one of the band's, for all of which `finish` has a place;
                    // tasks differ in group, outputs, image or rows; a `Kernel` is only made for levels that the CPU has.
                    unsafe {
                        patches(data.as_ptr(), pixels, runs, panel.as_ptr(), &ends);
                    }
                }
            }
        }
    }

    /// The outputs of a panel: the first one's channel, and how many.
    fn outputs(&self, panel: usize) -> (usize, usize) {
        let first = panel * self.kernel.columns;
        (self.group * self.target.per_group + first, self.kernel.columns.min(self.target.per_group - first))
    }

    /// Stores the sums of a panel's outputs; those of whole tiles may be more.
    ///
    /// Prefetching their places while they are computed made no difference: 1 x 1 from 64 channels took 5 % less forward and 2 %
    /// more backward, 3 x 3 as long as before.
    fn store(&self, panel: usize, sums: &mut [E::Sum]) {
        let (columns, (channel, outputs)) = (self.kernel.columns, self.outputs(panel));
        let (band, image, sums) = (self.band, self.image(), &mut sums[..self.pixels() * columns]);
        let [_, _, top] = self.place(channel);
        if self.target.order == MemoryOrder::ChannelsLast {
            for (n, sums) in band.images.clone().zip(sums.chunks_exact_mut((image * columns).max(1))) {
                // SAFETY: tasks differ in group, outputs, image or rows, so in what they store of a pixel.
                unsafe { self.target.store_pixels([n, channel, top], outputs, columns, sums) }
            }
            return;
        }
        // Turned parts of several small images stay in the L1 cache, as those of a large one do.
        let unit = if image > TURNED { TURNED } else { TURNED / image * image };
        // A unit more, so that the lines of every image in a unit are whole.
        scratch::with(unit * (outputs + 1), |turned: &mut [E::Sum]| {
            for (first, sums) in images_in(image, unit, sums, columns) {
                let pixels = sums.len() / columns;
                transpose(sums, columns, [pixels, outputs], turned, pixels);
                for start in (0..pixels).step_by(image) {
                    let lines = &mut turned[start..][..outputs * pixels];
                    let (n, pixel) = ((first + start) / image, top + (first + start) % image);
                    let at = [band.images.start + n, channel, pixel];
                    // SAFETY: tasks differ in group, outputs, image or rows, so in the pixels they store.
                    unsafe { self.target.store_lines(at, image.min(pixels), pixels, lines) }
                }
            }
        });
    }
}

/// Cuts the sums of pixels into parts of `unit` pixels, each part of one image or of several whole ones; with the place
/// of the first pixel.
fn images_in<T>(image: usize, unit: usize, sums: &[T], columns: usize) -> impl Iterator<Item = (usize, &[T])> {
    let period = image.max(unit);
    sums.chunks(period * columns).enumerate().flat_map(move |(i, sums)| {
        sums.chunks(unit * columns).enumerate().map(move |(j, sums)| (i * period + j * unit, sums))
    })
}
