//! Convolutions and transposed ones (gradients with respect to images): every pixel sums its patch times the kernel.

use super::super::images::Images;
use super::super::lattice::{Band, Lattice};
use super::super::pack::Weights;
use super::super::target::Target;
use super::depthwise::{self, Frame};
use super::fill::Filling;
use super::patch::{Patch, TRIPLE};
use super::planes::Planes;
use super::{Cut, ROWS, SLACK, filled, with_channels};
use crate::gemm::kernel::Full;
use crate::gemm::product::PER_CYCLE;
use crate::num::Real;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch_at};
use crate::{View, parallel, scratch};
use std::ops::Range;

/// Outputs that are summed together, so that each pixel is loaded once for all of them.
const SHARED: usize = 3;

/// Computes the target from all channels of `source`; `of_group` is the kernels of a group.
pub(in crate::conv) fn gather<'a, T: Full>(
    source: &View,
    of_group: &(dyn Fn(usize) -> Weights<'a, T> + Sync),
    groups: usize,
    lattice: &Lattice,
    target: &Target<T>,
) {
    gather_at(Level::current(), source, of_group, groups, lattice, target);
}

/// [`gather`] with an instruction set.
pub(in crate::conv) fn gather_at<'a, T: Full>(
    level: Level,
    source: &View,
    of_group: &(dyn Fn(usize) -> Weights<'a, T> + Sync),
    groups: usize,
    lattice: &Lattice,
    target: &Target<T>,
) {
    let (images, channels) = (source.layout.shape[0], source.layout.shape[1] / groups);
    let of_images = Images::new(source);
    let frame = Frame::new(lattice, of_images.size, [groups, channels], of_images.together());
    if let Some(frame) = frame.filter(|_| target.per_group == 1) {
        return depthwise::gather(level, frame, source, of_group, lattice, target);
    }
    let (cut, source) = (Cut::new(lattice, groups, channels), of_images);
    let planes = Planes::new(lattice, source.size, cut.rows);
    let patches: Vec<Patch> = lattice.phases.iter().map(|phase| Patch::new(&planes, phase, channels)).collect();
    let depth: usize = patches.iter().map(|patch| patch.elements.len()).sum();
    let mut weights = Vec::with_capacity(groups * target.per_group * depth);
    for kernels in (0..groups).map(of_group) {
        for output in 0..target.per_group {
            patches.iter().for_each(|patch| weights.extend(patch.weights(&kernels, output)));
        }
    }
    let all = Gather { level, source, channels, lattice, target, planes, patches, depth, weights };
    let pieces = cut.pieces(groups, lattice.grid[0]);
    let pixels: usize = lattice.grid.iter().product();
    let work = 2 * images * groups * target.per_group * pixels * (8 + channels * lattice.taps()) / PER_CYCLE;
    parallel::for_each(images * pieces.len(), work, |task| {
        let (groups, rows) = &pieces[task % pieces.len()];
        all.piece(task / pieces.len(), groups.clone(), rows.clone());
    });
}

struct Gather<'a, T> {
    level: Level,
    source: Images<'a>,
    /// Of each group of the source.
    channels: usize,
    lattice: &'a Lattice,
    target: &'a Target<'a, T>,
    planes: Planes,
    /// Of each phase.
    patches: Vec<Patch>,
    /// Elements of the kernels of one output.
    depth: usize,
    /// `[outputs][phases]` in the order of the patches.
    weights: Vec<T>,
}

impl<T: Full> Gather<'_, T> {
    /// Computes rows of pixels of some groups of an image.
    fn piece(&self, image: usize, groups: Range<usize>, rows: Range<usize>) {
        let (lattice, per_group, planes) = (self.lattice, self.target.per_group, &self.planes);
        let outputs = groups.start * per_group..groups.end * per_group;
        let channels = groups.start * self.channels..groups.end * self.channels;
        let pixels = rows.len() * lattice.grid[1];
        let of_batch = filled(planes, self.channels).min(groups.len()) * self.channels * planes.of_channel();
        let sizes = [of_batch + SLACK, outputs.len() * self.patches.len() * pixels];
        scratch::with(sizes[0] + sizes[1] + SLACK, |buffer: &mut [T]| {
            let (data, sums) = buffer.split_at_mut(sizes[0]);
            with_channels(&self.source, planes, image, channels, rows.start, |filling| {
                let weights = &self.weights[outputs.start * self.depth..outputs.end * self.depth];
                let (rows, groups) = (rows.len(), groups.len());
                dispatch_at(self.level, Pixels { filling, data, sums, gather: self, rows, groups, weights });
            });
            let band = Band { images: image..image + 1, rows };
            self.store(&band, outputs.start, &mut sums[..sizes[1]]);
        });
    }

    /// Stores sums, `[outputs][phases][pixels]`, from an output channel on.
    fn store(&self, band: &Band, channel: usize, sums: &mut [T]) {
        let (lattice, phases) = (self.lattice, self.patches.len());
        let written = lattice.written(band);
        let (first, count) = (written.start * lattice.size[1], written.len() * lattice.size[1]);
        let pixels = band.rows.len() * lattice.grid[1];
        let place = [band.images.start, channel, first];
        if phases == 1 && pixels == count {
            // SAFETY: tasks differ in the image, the channels or the rows that they store.
            return unsafe { self.target.store_lines(place, count, pixels, sums) };
        }
        let outputs = sums.len() / (phases * pixels);
        scratch::with(outputs * count, |values: &mut [T]| {
            for (sums, values) in sums.chunks_exact(phases * pixels).zip(values.chunks_exact_mut(count)) {
                lattice.interleave(band, sums, pixels, values);
            }
            // SAFETY: as above.
            unsafe { self.target.store_lines(place, count, count, values) };
        });
    }
}

/// All pixels of a piece.
struct Pixels<'a, T> {
    filling: Filling<'a, T>,
    data: &'a mut [T],
    /// `[outputs][phases][rows][columns]`, and slack.
    sums: &'a mut [T],
    gather: &'a Gather<'a, T>,
    rows: usize,
    groups: usize,
    /// Of the outputs.
    weights: &'a [T],
}

impl<T: Real> Kernel for Pixels<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { filling, data, sums, gather, rows, groups, weights } = self;
        let channels = gather.channels;
        let (batch, unit) = (filled(&gather.planes, channels), channels * gather.planes.of_channel());
        let of_group = gather.target.per_group * gather.depth;
        let mut at = 0;
        for first in (0..groups).step_by(batch) {
            let count = batch.min(groups - first);
            filling.part(first * channels..(first + count) * channels).fill::<S>(data);
            for group in 0..count {
                let weights = &weights[(first + group) * of_group..][..of_group];
                at += gather.group::<S>(&data[group * unit..], weights, rows, &mut sums[at..]);
            }
        }
    }
}

impl<T: Real> Gather<'_, T> {
    /// Sums of all outputs of a group; returns how many.
    #[inline(always)]
    fn group<S: Simd>(&self, data: &[T], weights: &[T], rows: usize, sums: &mut [T]) -> usize {
        let (width, count) = (self.lattice.grid[1], self.target.per_group);
        let pixels = rows * width;
        let of_output = self.patches.len() * pixels;
        // Vectors that are longer than a line end in sums that must be written later.
        let shared = if width < LANES { 0 } else { count - count % SHARED };
        assert!(weights.len() >= count * self.depth && count * of_output + LANES <= sums.len());
        let mut output = 0;
        while output < count {
            let next = if output < shared { SHARED } else { 1 };
            let mut start = output * self.depth;
            for (phase, patch) in self.patches.iter().enumerate() {
                assert!(self.planes.reach(patch, rows, width) + LANES <= data.len());
                let weights = (weights[start..].as_ptr(), self.depth);
                let plane = Plane { data: data.as_ptr(), next: self.planes.line, patch, weights };
                // SAFETY: asserted above: all vectors that begin at a pixel are in `data`, those that begin at a sum in
                // `sums`, and there is a kernel for each output.
                unsafe {
                    let sums = sums.as_mut_ptr().add(output * of_output + phase * pixels);
                    match next {
                        SHARED => plane.compute::<S, SHARED>([rows, width], sums, of_output),
                        _ => plane.compute::<S, 1>([rows, width], sums, of_output),
                    }
                }
                start += patch.elements.len();
            }
            output += next;
        }
        count * of_output
    }
}

/// Where some outputs of a band read, and their weights: those of the first one, and the distance to the next.
struct Plane<'a, T> {
    data: *const T,
    next: usize,
    patch: &'a Patch,
    weights: (*const T, usize),
}

impl<T: Real> Plane<'_, T> {
    /// `sums[o * apart + y * width + x] = Σ weights[o][i] * data[offsets[i] + y * next + x]` for `O` outputs.
    ///
    /// # Safety
    /// A vector must be readable for all pixels and offsets, and writable for all sums; there must be weights of every
    /// place for each output.
    #[inline(always)]
    unsafe fn compute<S: Simd, const O: usize>(&self, [rows, width]: [usize; 2], sums: *mut T, apart: usize) {
        // SAFETY: the caller's duty.
        unsafe {
            if rows < ROWS {
                for y in 0..rows {
                    self.rows::<S, 1, O>(y, width, sums, apart);
                }
                return;
            }
            for y in (0..rows).step_by(ROWS) {
                self.rows::<S, ROWS, O>(y.min(rows - ROWS), width, sums, apart);
            }
        }
    }

    /// `R` rows. Vectors of narrow images end in the next row or in the slack, which are written later.
    ///
    /// # Safety
    /// As [`Self::compute`].
    #[inline(always)]
    unsafe fn rows<S: Simd, const R: usize, const O: usize>(&self, y: usize, width: usize, sums: *mut T, apart: usize) {
        for x in (0..width).step_by(LANES) {
            // The last vector overlaps the one before it.
            let x = x.min(width.saturating_sub(LANES));
            // SAFETY: the caller's duty.
            unsafe {
                let block = self.block::<S, R, O>(self.data.add(y * self.next + x));
                for (o, rows) in block.into_iter().enumerate() {
                    for (r, vector) in rows.into_iter().enumerate() {
                        vector.store(&mut *sums.add(o * apart + (y + r) * width + x).cast());
                    }
                }
            }
        }
    }

    /// One vector of each of `R` rows of `O` outputs.
    ///
    /// # Safety
    /// As [`Self::compute`].
    #[inline(always)]
    unsafe fn block<S: Simd, const R: usize, const O: usize>(&self, data: *const T) -> [[T::Lanes<S>; R]; O] {
        // SAFETY: the caller's duty.
        let load = |at: usize| T::Lanes::<S>::load(unsafe { &*data.add(at).cast() });
        let (mut weights, apart) = self.weights;
        let mut sums = [[T::Lanes::<S>::splat(T::ZERO); R]; O];
        for &offset in &self.patch.triples {
            // SAFETY: there are weights of every place of each output (caller).
            let of = |o: usize, i: usize| unsafe { T::Lanes::<S>::splat(*weights.add(o * apart + i)) };
            let splat: [[T::Lanes<S>; TRIPLE]; O] = std::array::from_fn(|o| std::array::from_fn(|i| of(o, i)));
            for line in 0..R + TRIPLE - 1 {
                let from = load(offset + line * self.next);
                for (sums, weights) in sums.iter_mut().zip(&splat) {
                    for (r, sum) in sums.iter_mut().enumerate() {
                        if let Some(&weight) = line.checked_sub(r).and_then(|i| weights.get(i)) {
                            *sum = from.mul_add(weight, *sum);
                        }
                    }
                }
            }
            weights = weights.wrapping_add(TRIPLE);
        }
        for &offset in &self.patch.singles {
            // SAFETY: as above.
            let splat: [T::Lanes<S>; O] =
                std::array::from_fn(|o| T::Lanes::<S>::splat(unsafe { *weights.add(o * apart) }));
            for r in 0..R {
                let from = load(offset + r * self.next);
                for (sums, &weight) in sums.iter_mut().zip(&splat) {
                    sums[r] = from.mul_add(weight, sums[r]);
                }
            }
            weights = weights.wrapping_add(1);
        }
        sums
    }
}
