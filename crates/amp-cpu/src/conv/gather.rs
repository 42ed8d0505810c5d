//! Convolution over a lattice: patches, read where they lie in scratch planes, times packed kernels.

use super::images::Images;
use super::lattice::{Band, Lattice, Phase};
use super::pack::Weights;
use super::patch::{Class, Patch, Pixel};
use super::planes::Planes;
use super::tile::{Convolve, Finish, Kernel, Patches, Reading};
use crate::gemm;
use crate::gemm::product::{PER_CYCLE, tiles};
use crate::num::Real;
use crate::output::{Finished, Output};
use crate::scratch::Plain;
use crate::simd::Level;
use crate::transpose::transpose;
use crate::{MemoryOrder, Storage, View, parallel, scratch};
use std::ops::Range;

/// Tasks wanted at least, so that a few threads have something to do.
const TASKS: usize = 8;
/// Panels of outputs that packed patches are multiplied by at a time.
const PANELS: usize = 6;
/// Pixels that are turned at a time.
const TURNED: usize = 64;

/// The images that are computed, and what is added to them.
pub(super) struct Target<'a, T> {
    output: Output<'a>,
    pub per_group: usize,
    channels: usize,
    pub size: [usize; 2],
    bias: &'a [T],
    pub order: MemoryOrder,
}

impl<'a, T: Real> Target<'a, T> {
    pub(super) fn new(
        storage: &'a mut Storage,
        per_group: usize,
        channels: usize,
        size: [usize; 2],
        bias: &'a [T],
        order: MemoryOrder,
    ) -> Self {
        Self { output: Output::new(storage), per_group, channels, size, bias, order }
    }

    /// Adds the bias to `count` neighbouring channels of pixels, from an image's channel and pixel on, and stores them where
    /// the channels of a pixel lie together: the first values of vectors of `len`, one for each pixel.
    ///
    /// # Safety
    /// No other thread may store these channels of these pixels meanwhile.
    pub(super) unsafe fn store_pixels(
        &self,
        [image, channel, first]: [usize; 3],
        count: usize,
        len: usize,
        vectors: &mut [T],
    ) {
        let bias = self.bias.get(channel..channel + count).unwrap_or_default();
        let at = (image * self.size[0] * self.size[1] + first) * self.channels + channel;
        // SAFETY: the caller's duty.
        unsafe { self.output.store_rows(at, self.channels, count, bias, Finished { values: vectors, len }) }
    }

    /// Where tiles may store sums themselves, `columns` channels of `count` pixels from an image's channel and pixel on: if
    /// they lie together there, as this type, and take no bias.
    fn finish<R: Plain>(&self, [image, channel, first]: [usize; 3], columns: usize, count: usize) -> Option<Finish<R>> {
        if self.order != MemoryOrder::ChannelsLast || !self.bias.is_empty() {
            return None;
        }
        let at = (image * self.size[0] * self.size[1] + first) * self.channels + channel;
        let to = self.output.rows(at, self.channels, count, columns)?;
        Some(Finish { to, stride: self.channels })
    }

    /// Asks for the memory of all channels of `count` pixels, where they lie together.
    pub(super) fn expect(&self, image: usize, first: usize, count: usize) {
        if self.order == MemoryOrder::ChannelsLast {
            let at = (image * self.size[0] * self.size[1] + first) * self.channels;
            self.output.expect(at, 0, 1, count * self.channels);
        }
    }

    /// [`Self::store_pixels`], in either order.
    ///
    /// # Safety
    /// No other thread may store these channels of these pixels meanwhile.
    pub(super) unsafe fn store_vectors(&self, place: [usize; 3], count: usize, len: usize, vectors: &mut [T]) {
        if self.order == MemoryOrder::ChannelsLast {
            // SAFETY: the caller's duty.
            return unsafe { self.store_pixels(place, count, len, vectors) };
        }
        let pixels = vectors.len() / len;
        scratch::with(pixels * count, |lines: &mut [T]| {
            transpose(vectors, len, [pixels, count], lines, pixels);
            // SAFETY: as above.
            unsafe { self.store_lines(place, pixels, pixels, lines) };
        });
    }

    /// Adds the bias to pixels of neighbouring channels, from an image's channel and pixel on, and stores them: the first
    /// `count` values of lines of `len`.
    ///
    /// # Safety
    /// No other thread may store these pixels meanwhile.
    pub(super) unsafe fn store_lines(
        &self,
        [image, channel, first]: [usize; 3],
        count: usize,
        len: usize,
        lines: &mut [T],
    ) {
        if self.order == MemoryOrder::ChannelsLast {
            let channels = lines.len() / len;
            scratch::with(TURNED * channels, |turned: &mut [T]| {
                for start in (0..count).step_by(TURNED) {
                    let pixels = TURNED.min(count - start);
                    let turned = &mut turned[..pixels * channels];
                    transpose(&lines[start..], len, [channels, pixels], turned, channels);
                    // SAFETY: the caller's duty.
                    unsafe { self.store_pixels([image, channel, first + start], channels, channels, turned) };
                }
            });
            return;
        }
        if !self.bias.is_empty() {
            for (line, &bias) in lines.chunks_exact_mut(len).zip(&self.bias[channel..]) {
                line[..count].iter_mut().for_each(|value| *value += bias);
            }
        }
        let (plane, lines) = (self.size[0] * self.size[1], Finished { values: lines, len });
        // SAFETY: the caller's duty.
        unsafe { self.output.store_rows((image * self.channels + channel) * plane + first, plane, count, &[], lines) }
    }
}

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
    let bands = lattice.bands(source.layout.shape[0], channels, size_of::<E>());
    let plans = Plans::new(&kernel, lattice, &bands, channels, Images::new(source).size);
    let depth = channels.next_multiple_of(kernel.group);
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

/// What bands with the same rows and as many images have in common.
///
/// Pixels of all phases have their places among the sums in the order of the output: bringing phases together when they
/// are stored took a fifth of the gradient of 1 x 1 by steps of two.
struct Plan {
    rows: Range<usize>,
    images: usize,
    planes: Planes,
    /// Of each phase.
    patches: Vec<Patch>,
}

/// The plans of all bands.
struct Plans(Vec<Plan>);

impl Plans {
    fn new<E: Convolve>(
        kernel: &Kernel<E>,
        lattice: &Lattice,
        bands: &[Band],
        channels: usize,
        size: [usize; 2],
    ) -> Self {
        let mut plans = Self(Vec::new());
        for band in bands {
            if plans.find(band).is_none() {
                plans.0.push(Plan::new(kernel, lattice, band, channels, size));
            }
        }
        plans
    }

    fn find(&self, band: &Band) -> Option<&Plan> {
        self.0.iter().find(|plan| plan.rows == band.rows && plan.images == band.images.len())
    }

    fn of(&self, band: &Band) -> &Plan {
        self.find(band).expect("one for every band")
    }
}

impl Plan {
    fn new<E: Convolve>(kernel: &Kernel<E>, lattice: &Lattice, band: &Band, channels: usize, size: [usize; 2]) -> Self {
        let planes = Planes::new(lattice, band, channels, kernel.group, 0);
        let patch = |(index, phase): (usize, &Phase)| {
            let mut classes = match kernel.reading {
                Reading::Direct(..) => planes.classes(phase, size, kernel.rows),
                Reading::Packed(_) => planes.one_class(phase),
            };
            for Class { pixels, .. } in &mut classes {
                let place =
                    |pixel: &Pixel| lattice.place(band, index, pixel.index).map(|index| Pixel { index, ..*pixel });
                *pixels = pixels.iter().filter_map(place).collect();
                // The last tile of a class repeats its last pixel.
                if let Some(&last) = pixels.last() {
                    pixels.resize(pixels.len().next_multiple_of(kernel.rows), last);
                }
            }
            Patch::new(&planes.taps(phase), planes.depth(), classes, kernel.depth)
        };
        let patches = lattice.phases.iter().enumerate().map(patch).collect();
        Self { rows: band.rows.clone(), images: band.images.len(), patches, planes }
    }
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
        let (Kernel { rows, columns, step, reading, .. }, Plan { planes, patches, .. }) = (self.kernel, self.plan);
        let count = self.band.images.len() * self.image();
        let of_panel = count.next_multiple_of(rows) * columns;
        // Patches that are packed are packed for a number of panels at once.
        let at_once = if matches!(reading, Reading::Packed(_)) { PANELS.min(self.panels.len()) } else { 1 };
        scratch::with(planes.len(self.band), |data: &mut [E]| {
            planes.fill(source, self.band, self.group * channels, data);
            scratch::with(at_once * of_panel, |sums: &mut [E::Sum]| {
                for first in self.panels.clone().step_by(at_once) {
                    let panels = first..self.panels.end.min(first + at_once);
                    let mut start = 0;
                    for patch in patches {
                        let depth = patch.depth.next_multiple_of(step) * columns;
                        let packed = &self.packed[start + panels.start * depth..start + panels.end * depth];
                        let sums = sums.chunks_exact_mut(of_panel);
                        self.multiply(packed, data, patch, sums.take(panels.len()).collect(), self.finish(first));
                        start += self.target.per_group.div_ceil(columns) * depth;
                    }
                    for (panel, sums) in panels.zip(sums.chunks_exact_mut(of_panel)) {
                        if self.finish(panel).is_none() {
                            self.store(panel, &mut sums[..count * columns]);
                        }
                    }
                }
            });
        });
    }

    /// Pixels of an image that are computed.
    fn image(&self) -> usize {
        self.lattice.written(self.band).len() * self.lattice.size[1]
    }

    /// Where tiles store the sums of a panel's outputs, all of the band's pixels', if they can.
    fn finish(&self, panel: usize) -> Option<Finish<E::Result>> {
        let (columns, (channel, outputs)) = (self.kernel.columns, self.outputs(panel));
        if matches!(self.kernel.reading, Reading::Packed(_)) || outputs < columns {
            return None;
        }
        let (images, top) = (&self.band.images, self.lattice.written(self.band).start * self.lattice.size[1]);
        self.target.finish([images.start, channel, top], columns, images.len() * self.image())
    }

    /// Sums of a phase's pixels for the outputs of some panels, each at its place in `[pixels of all phases][columns]`, or
    /// finished: those of one panel.
    fn multiply(
        &self,
        panels: &[E],
        data: &[E],
        patch: &Patch,
        mut sums: Vec<&mut [E::Sum]>,
        finish: Option<Finish<E::Result>>,
    ) {
        match self.kernel.reading {
            Reading::Direct(patches, _) => {
                sums.into_iter().for_each(|sums| self.strip(patches, panels, data, patch, sums, finish));
            }
            _ if patch.depth == 0 => sums.iter_mut().for_each(|sums| self.clear(patch, sums)),
            Reading::Packed(gemm) if self.lattice.phases.len() == 1 => self.strips(&gemm, panels, data, patch, sums),
            Reading::Packed(gemm) => {
                let (columns, pixels) = (self.kernel.columns, &patch.classes[0].pixels);
                let apart = pixels.len() * columns;
                scratch::with(sums.len() * apart, |products: &mut [E::Sum]| {
                    // Without pixels there are none.
                    self.strips(&gemm, panels, data, patch, products.chunks_exact_mut(apart.max(1)).collect());
                    for (products, sums) in products.chunks_exact(apart.max(1)).zip(&mut sums) {
                        for (pixel, products) in pixels.iter().zip(products.chunks_exact(columns)) {
                            sums[pixel.index * columns..][..columns].copy_from_slice(products);
                        }
                    }
                });
            }
        }
    }

    /// Zeroes the sums of a phase that reads nothing.
    fn clear(&self, patch: &Patch, sums: &mut [E::Sum]) {
        let columns = self.kernel.columns;
        for pixel in patch.classes.iter().flat_map(|class| &class.pixels) {
            sums[pixel.index * columns..][..columns].fill(Default::default());
        }
    }

    /// Sums of a phase's pixels for the outputs of some panels, in order; the patches are packed for all of them.
    fn strips(
        &self,
        gemm: &gemm::kernel::Kernel<E>,
        panels: &[E],
        data: &[E],
        patch: &Patch,
        mut sums: Vec<&mut [E::Sum]>,
    ) {
        let Kernel { rows, columns, step, .. } = self.kernel;
        let pixels = &patch.classes[0].pixels;
        if pixels.is_empty() {
            return;
        }
        let of_panel = panels.len() / sums.len();
        let _prepared = gemm.prepared();
        for block in &patch.blocks {
            let depth = block.depth.next_multiple_of(step);
            scratch::with(pixels.len() * depth, |left: &mut [E]| {
                for (pixels, left) in pixels.chunks_exact(rows).zip(left.chunks_exact_mut(rows * depth)) {
                    block.pack(gemm.left, data, pixels, left);
                }
                for (panel, sums) in panels.chunks_exact(of_panel).zip(&mut sums) {
                    let right = &panel[block.start * columns..][..depth * columns];
                    tiles(gemm, left, right, depth, sums, columns, block.start > 0);
                }
            });
        }
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
        finish: Option<Finish<E::Result>>,
    ) {
        let Kernel { rows, columns, .. } = self.kernel;
        let count = self.band.images.len() * self.image();
        assert!(patch.last.iter().all(|last| last.index < count) && count * columns <= sums.len());
        for (i, block) in patch.blocks.iter().enumerate() {
            let panel = &panel[block.start * columns..];
            for (j, (class, runs)) in patch.classes.iter().zip(&block.runs).enumerate() {
                let rest = patch.blocks[i + 1..].iter().any(|block| !block.runs[j].is_empty());
                // Pixels that read nothing have sums too.
                if runs.is_empty() && (i > 0 || rest) {
                    continue;
                }
                let finish = if rest { None } else { finish };
                assert!(runs.iter().all(|run| {
                    patch.last[j].at + run.at + run.len <= data.len() && run.start + run.len <= panel.len() / columns
                }));
                let accumulate = patch.blocks[..i].iter().any(|block| !block.runs[j].is_empty());
                for pixels in class.pixels.chunks_exact(rows) {
                    // SAFETY: the runs of every pixel end inside `data` and the panel holds the columns of all of them, each
                    // pixel has its place in `sums` (asserted), so one of the band's, for all of which `finish` has a place;
                    // tasks differ in group, outputs, image or rows; a `Kernel` is only made for levels that the CPU has.
                    unsafe {
                        patches(data.as_ptr(), pixels, runs, panel.as_ptr(), sums.as_mut_ptr(), accumulate, finish);
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

    /// Stores the sums of a panel's outputs.
    ///
    /// Asking for their places while they are computed made no difference: 1 x 1 from 64 channels took 5 % less forward and 2 %
    /// more backward, 3 x 3 as long as before.
    fn store(&self, panel: usize, sums: &mut [E::Sum]) {
        let (columns, (channel, outputs)) = (self.kernel.columns, self.outputs(panel));
        let (band, image) = (self.band, self.image());
        let top = self.lattice.written(band).start * self.lattice.size[1];
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
