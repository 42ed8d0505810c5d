//! Gradient with respect to a kernel, the images of a pixel one after the other.
//!
//! A step of AMX sums 32 pixels, of which pairs lie together. Pairs of neighbours in a row are others for every tap, so that each
//! tap wants them interleaved anew; pairs of images are the same for all. What lies outside of the images is left out as well.
//!
//! 3 x 3 over 64 channels of 32 by 32, 128 images, takes two threads of a Xeon with AMX 6.0 ms and not 10.5: tiles are half of it,
//! copying what is packed a fifth. More in `benches/record/findings.md`.

use super::super::images::Images;
use super::super::lattice::{Band, Lattice, Tap};
use super::super::lines;
use super::super::patch::Patch;
use super::super::planes::Planes;
use super::super::tile::{Convolve, Kernel, Reading};
use super::CACHE_LINE;
use super::part::{Part, Strip};
use crate::gemm::cut::Cut;
use crate::gemm::kernel::{Multiply, Scattered};
use crate::gemm::panel::pair;
use crate::simd::{self, Simd, dispatch};
use crate::transpose::transpose;
use crate::{View, parallel, scratch};
use std::ops::Range;

/// Images of a band: those of a step.
const IMAGES: usize = 32;
/// Fewest channels of which every tap's are a strip. Of fewer, patches are strips, if they have no more elements than this.
const CHANNELS: usize = 16;
const PATCH: usize = 256;

/// Where a band's pixels lie.
pub(super) struct Batch {
    images: Range<usize>,
    rows: Range<usize>,
    /// Pixels of a row.
    width: usize,
    /// Whether the source is packed as patches, else as vectors of the positions that a tap reads.
    patches: bool,
    /// Patches of an image, or positions.
    positions: usize,
    /// Of each tap, or of all, the steps: where it lies in a panel of the gradient, and the pixels before it in a block of the source.
    steps: Vec<Vec<[usize; 2]>>,
}

/// Whether the steps of all bands are whole, for rows of `width` pixels that lie `step` apart in the source.
pub(in super::super) fn takes_batches(images: usize, width: usize, step: usize) -> bool {
    let neighbours = step == 1;
    let even = |images: usize| {
        images.is_multiple_of(IMAGES)
            || neighbours && images.is_multiple_of(2) && (images * width).is_multiple_of(IMAGES)
    };
    even(images) || images > IMAGES && even(images % IMAGES)
}

impl Batch {
    /// The bands of a source with `channels` of `size`, with `elements` of it in each; `None` where another order is better.
    pub(super) fn bands(images: usize, channels: usize, lattice: &Lattice, elements: usize) -> Option<Vec<Band>> {
        let [height, width] = lattice.grid;
        let line = channels * width * lattice.step[0] * lattice.step[1];
        if line * height == 0 || !takes_batches(images, width, lattice.step[1]) {
            return None;
        }
        let whole = elements / (line * height);
        let at_once = if whole >= IMAGES { whole / IMAGES * IMAGES } else { IMAGES }.min(images);
        let rows = (elements / (at_once * line)).clamp(1, height);
        let rows = height.div_ceil(height.div_ceil(rows));
        let bands = (0..images).step_by(at_once).flat_map(|first| {
            let images = first..images.min(first + at_once);
            (0..height).step_by(rows).map(move |y| Band { images: images.clone(), rows: y..height.min(y + rows) })
        });
        Some(bands.collect())
    }

    fn new(lattice: &Lattice, band: &Band, size: [usize; 2], inputs: usize, rows_of_panel: usize) -> Self {
        let (images, width) = (band.images.len(), lattice.grid[1]);
        let (pixels, of_patch) = (band.rows.len() * width, inputs * lattice.taps());
        let (images_of_band, rows) = (band.images.clone(), band.rows.clone());
        if inputs < CHANNELS && of_patch <= PATCH {
            let steps = (0..pixels * images).step_by(IMAGES).map(|place| [place * rows_of_panel, place]).collect();
            return Self { images: images_of_band, rows, width, patches: true, positions: pixels, steps: vec![steps] };
        }
        let one = Band { images: 0..1, rows: band.rows.clone() };
        let planes = Planes::new(lattice, &one, 1, 1, 0);
        let [phase] = &lattice.phases[..] else { unreachable!("a convolution has one phase") };
        let steps_of = |(tap, distance): (&Tap, usize)| {
            let [rows, columns] = planes.inside(tap, size);
            let mut steps = Vec::with_capacity(rows.len() * columns.len() * images.div_ceil(IMAGES));
            for y in rows {
                // Zeros beside an image are there, and belong to steps of several pixels.
                let (pixels, count) = match images.is_multiple_of(IMAGES) {
                    true => (columns.clone(), images),
                    false => (0..1, width * images),
                };
                for pixel in pixels.map(|x| y * width + x) {
                    let [grad, source] = [pixel, planes.pixels[pixel] + distance].map(|at| at * images);
                    steps.extend((0..count).step_by(IMAGES).map(|i| [(grad + i) * rows_of_panel, source + i]));
                }
            }
            steps
        };
        let steps = phase.taps.iter().zip(planes.taps(phase)).map(steps_of).collect();
        Self { images: images_of_band, rows, width, patches: false, positions: planes.len(&one), steps }
    }

    /// Elements of a panel of the gradient with so many rows.
    pub(super) fn of_panel(&self, rows: usize) -> usize {
        rows * self.images.len() * self.rows.len() * self.width
    }

    /// Elements of a block of so many columns of the source.
    pub(super) fn of_block(&self, columns: usize) -> usize {
        columns * self.images.len() * self.positions
    }

    /// Writes panels of the gradient of some channels, each `[pixels / 32][rows][32 pixels]`.
    pub(super) fn pack_grad<E: Multiply>(
        &self,
        grad: &Images,
        [first, outputs]: [usize; 2],
        rows: usize,
        work: usize,
        out: &mut [E],
    ) {
        let (of_panel, at_once) = (self.of_panel(rows), at_once(outputs, rows, work));
        parallel::for_each_chunk_mut(out, at_once / rows * of_panel, &|i, panels| {
            let start = i * at_once;
            let count = at_once.min(outputs - start);
            panels[count / rows * of_panel..].fill(E::default());
            self.panels(grad, first + start..first + start + count, rows, panels);
        });
    }

    /// Writes the panels of some channels.
    fn panels<E: Multiply>(&self, grad: &Images, channels: Range<usize>, rows: usize, out: &mut [E]) {
        let (images, width, of_panel, count) = (self.images.len(), self.width, self.of_panel(rows), channels.len());
        let stride = width * count + CACHE_LINE;
        scratch::with(images * stride, |lines: &mut [E]| {
            for (y, row) in self.rows.clone().enumerate() {
                for (image, line) in self.images.clone().zip(lines.chunks_exact_mut(stride)) {
                    grad.load_pixels(image, channels.clone(), row, &mut line[..width * count]);
                }
                let (mut place, end) = (y * width * images, (y + 1) * width * images);
                while place < end {
                    let (x, image) = (place / images % width, place % images);
                    let at_once = (IMAGES - place % IMAGES).min(images - image);
                    for first in (0..count).step_by(rows) {
                        let from = &lines[image * stride + x * count + first..];
                        let at = first / rows * of_panel + place / IMAGES * IMAGES * rows + place % IMAGES;
                        transpose(from, stride, [at_once, rows.min(count - first)], &mut out[at..], IMAGES);
                    }
                    place += at_once;
                }
            }
        });
    }

    /// Writes blocks of columns of the source, each `[positions][pairs of images][columns][2]`.
    fn pack_source<E: Multiply>(&self, source: &Source, columns: usize, work: usize, out: &mut [E]) {
        let (of_block, all) =
            (self.of_block(columns), if self.patches { source.of_patch() } else { source.channels[1] });
        let at_once = at_once(all, columns, work);
        parallel::for_each_chunk_mut(out, at_once / columns * of_block, &|i, out| {
            let start = i * at_once;
            let here = start..all.min(start + at_once);
            out[here.len() / columns * of_block..].fill(E::default());
            if self.patches {
                self.pack_patches(source, here, columns, out)
            } else {
                self.pack_vectors(source, here, columns, out)
            }
        });
    }

    /// Two images of the band.
    fn two(&self, first: usize) -> Band {
        Band { images: first..first + 2, rows: self.rows.clone() }
    }

    /// Writes blocks of some channels.
    fn pack_vectors<E: Multiply>(&self, source: &Source, channels: Range<usize>, columns: usize, out: &mut [E]) {
        let (len, pairs) = (channels.len(), self.images.len() / 2);
        let planes = Planes::new(source.lattice, &self.two(0), len, 1, 0);
        scratch::with(2 * self.positions * len, |data: &mut [E]| {
            for (index, image) in self.images.clone().step_by(2).enumerate() {
                planes.fill(source.x, &self.two(image), source.channels[0] + channels.start, data);
                let images = data.split_at(self.positions * len);
                dispatch(Pairs { images, channels: len, index, pairs, columns, out });
            }
        });
    }

    /// Writes blocks of some elements of patches.
    fn pack_patches<E: Multiply>(&self, source: &Source, elements: Range<usize>, columns: usize, out: &mut [E]) {
        let (lattice, channels, pairs) = (source.lattice, source.channels[1], self.images.len() / 2);
        let one = |image: usize| Band { images: image..image + 1, rows: self.rows.clone() };
        let (phase, planes) = (&lattice.phases[0], Planes::new(lattice, &one(0), channels, 1, 0));
        let whole = Cut::at_most(source.of_patch(), columns);
        let patch = Patch::new(&planes.taps(phase), channels, planes.one_class(phase), whole);
        let lines = lines::of(&patch.blocks[0], 0, columns);
        let lines = &lines[elements.start / columns..elements.end.div_ceil(columns)];
        let len = self.positions * lines.len() * columns;
        scratch::with(planes.len(&one(0)), |data: &mut [E]| {
            scratch::with(2 * len, |patches: &mut [E]| {
                for (index, image) in self.images.clone().step_by(2).enumerate() {
                    for (image, patches) in (image..).zip(patches.chunks_exact_mut(len)) {
                        planes.fill(source.x, &one(image), source.channels[0], data);
                        lines::pack(lines, data, &patch.classes[0].pixels, patches);
                    }
                    let images = patches.split_at(len);
                    dispatch(Pairs { images, channels: lines.len() * columns, index, pairs, columns, out });
                }
            });
        });
    }
}

/// What the gradient is multiplied by.
struct Source<'a> {
    x: &'a View<'a>,
    lattice: &'a Lattice,
    /// The first channel, and how many.
    channels: [usize; 2],
}

impl Source<'_> {
    fn of_patch(&self) -> usize {
        self.channels[1] * self.lattice.taps()
    }
}

impl<E: Convolve> Part<'_, E> {
    /// Adds the band's sums, the images of a pixel one after the other.
    pub(super) fn add_batch(&self, tile: Scattered<E>, grad: &View, x: &View, inputs: [usize; 2]) {
        let Kernel { rows, columns, .. } = self.kernel;
        let (grad, work) = (Images::new(grad), self.work(inputs[1]));
        let source = Source { x, lattice: self.lattice, channels: inputs };
        let batch = Batch::new(self.lattice, self.band, Images::new(x).size, inputs[1], rows);
        let (of_panel, of_block) = (batch.of_panel(rows), batch.of_block(columns));
        let (taps, of_tap) = if batch.patches { (1, source.of_patch()) } else { (self.lattice.taps(), inputs[1]) };
        let (panels, blocks) = (self.outputs[1].div_ceil(rows), of_tap.div_ceil(columns));
        scratch::with(panels * of_panel, |grad_panels: &mut [E]| {
            batch.pack_grad(&grad, self.outputs, rows, work, grad_panels);
            scratch::with(blocks * of_block, |packed: &mut [E]| {
                batch.pack_source(&source, columns, work, packed);
                self.store(&strips(taps, of_tap, columns), inputs[1], work, &|strip, panel, sums| {
                    let block = &packed[strip.at / columns * of_block..][..of_block];
                    let panels = grad_panels[panel * of_panel..].chunks_exact(of_panel);
                    self.multiply(tile, &batch.steps[strip.first / of_tap], panels, block, sums);
                });
            });
        });
    }

    /// Products of panels of the gradient and a block of the source with a tap: the sums of all their rows.
    fn multiply<'b>(
        &self,
        tile: Scattered<E>,
        steps: &[[usize; 2]],
        panels: impl Iterator<Item = &'b [E]>,
        source: &[E],
        sums: &mut [E::Sum],
    ) {
        let Kernel { rows, columns, reading, .. } = self.kernel;
        let Reading::Packed(gemm) = reading else { unreachable!("only kernels of products take steps from anywhere") };
        if steps.is_empty() {
            return sums.fill(Default::default());
        }
        let _prepared = gemm.prepared();
        for (grad, sums) in panels.zip(sums.chunks_exact_mut(rows * columns)) {
            let inside =
                |&[a, b]: &[usize; 2]| a + IMAGES * rows <= grad.len() && (b + IMAGES) * columns <= source.len();
            assert!(rows.is_multiple_of(2) && steps.iter().all(inside));
            let halves = [grad, &grad[rows / 2 * IMAGES..]].map(<[E]>::as_ptr);
            // SAFETY: each step's pixels of the gradient, row after row, and of the source are inside (asserted), `sums` has
            // the rows of a tile (`chunks_exact_mut`); a `Kernel` is only made for levels that the CPU has, and this thread is
            // prepared for it.
            unsafe { tile(steps, halves, IMAGES, source.as_ptr(), sums.as_mut_ptr(), false) };
        }
    }
}

/// Strips of every tap's channels, or of a patch.
fn strips(taps: usize, channels: usize, columns: usize) -> Vec<Strip> {
    let strip = |tap: usize, at: usize| Strip {
        first: tap * channels + at,
        total: taps * channels,
        at,
        len: columns.min(channels - at),
    };
    (0..taps).flat_map(|tap| (0..channels).step_by(columns).map(move |at| strip(tap, at))).collect()
}

/// Channels that are packed by one task: all, or whole panels of `width` in a few parts if there are threads for that.
fn at_once(channels: usize, width: usize, work: usize) -> usize {
    const PARTS: usize = 4;
    channels.div_ceil(if work == 0 { 1 } else { PARTS }).next_multiple_of(width)
}

/// Interleaves the vectors of two images' positions.
struct Pairs<'a, E> {
    images: (&'a [E], &'a [E]),
    channels: usize,
    /// Which pair this is, and of how many.
    index: usize,
    pairs: usize,
    columns: usize,
    /// Blocks.
    out: &'a mut [E],
}

impl<E: Multiply> simd::Kernel for Pairs<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { images: (first, second), channels, index, pairs, columns, out } = self;
        let positions = first.len() / channels;
        for (position, both) in first.chunks_exact(channels).zip(second.chunks_exact(channels)).enumerate() {
            for (block, (first, second)) in both.0.chunks(columns).zip(both.1.chunks(columns)).enumerate() {
                let at = ((block * positions + position) * pairs + index) * 2 * columns;
                let to = out[at..][..2 * columns].as_chunks_mut::<2>().0;
                match (first.first_chunk::<32>(), second.first_chunk::<32>(), to.first_chunk_mut::<32>()) {
                    (Some(first), Some(second), Some(to)) => *to = std::array::from_fn(|i| [first[i], second[i]]),
                    _ => pair(first, second, to),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conv2d;

    #[test]
    fn bands_of_steps_that_are_whole() {
        let bands = |images: usize, size: usize, stride: usize, channels: usize| {
            let spec = Conv2d { stride: [stride; 2], padding: [1; 2], ..Conv2d::default() };
            let lattice = Lattice::forward(&spec, [size; 2], [3; 2]);
            let bands = Batch::bands(images, channels, &lattice, 1 << 18)?;
            Some(bands.iter().map(|band| (band.images.len(), band.rows.len())).collect::<Vec<_>>())
        };
        assert_eq!(bands(128, 32, 1, 64), Some(vec![(32, 4); 32]));
        assert_eq!(bands(32, 16, 2, 64), Some(vec![(32, 2); 8]));
        assert_eq!(bands(96, 4, 1, 128), Some(vec![(96, 4)]));
        assert_eq!(bands(40, 32, 1, 64), Some([vec![(32, 4); 8], vec![(8, 4); 8]].concat()));
        // An odd image, steps that end in the middle of a row, or whose pixels are no neighbours.
        for [images, size, stride, channels] in [[33, 32, 1, 64], [6, 8, 1, 64], [8, 16, 2, 64]] {
            assert_eq!(bands(images, size, stride, channels), None, "{images} images of {size} by {size}");
        }
    }
}
