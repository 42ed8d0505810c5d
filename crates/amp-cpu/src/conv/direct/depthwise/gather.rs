//! Depthwise convolutions and transposed ones: sixteen channels of every pixel sum their patches times their kernels.

use super::super::super::images::Images;
use super::super::super::lattice::{Band, Lattice};
use super::super::super::pack::Weights;
use super::super::super::target::Target;
use super::{Frame, NEXT, TAPS, blocks, moved, neighbours, vector};
use crate::gemm::kernel::Full;
use crate::gemm::product::PER_CYCLE;
use crate::num::Real;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch_at};
use crate::{View, parallel, scratch};
use std::ops::Range;

/// Elements of a source that a task computes.
const BLOCK: usize = 1 << 13;
/// Pixels that are summed at a time in rows of so many: whichever number leaves the fewest to be summed twice, the vectors of the
/// kernel that each lot reads counted as one more.
///
/// Rows of 14 are two lots of 7, where two of 8 would overlap. On a core of Zen 4, 7 x 7 over 384 channels of 14 by 14 takes 0.92
/// of the time that lots of 8 and 4 took, of 768 channels of 7 by 7 0.75.
fn pixels_at_once(columns: usize) -> usize {
    let lots = |&size: &usize| columns.div_ceil(size) * (size + 1);
    [8, 7, 6, NEXT].into_iter().filter(|&size| size <= columns).min_by_key(lots).unwrap_or(1)
}

/// As [`super::super::gather::gather_at`].
pub(in crate::conv::direct) fn gather<'a, T: Full>(
    level: Level,
    frame: Frame,
    source: &View,
    of_group: &(dyn Fn(usize) -> Weights<'a, T> + Sync),
    lattice: &Lattice,
    target: &Target<T>,
) {
    let (images, channels) = (source.layout.shape[0], source.layout.shape[1]);
    let (source, lanes) = (Images::new(source), frame.lanes);
    let pixels = lattice.size[0] * lattice.size[1];
    let blocks: Vec<Range<usize>> = blocks(channels, lanes).collect();
    let weights: Vec<Vec<T>> = blocks.iter().map(|block| weights(block, lanes, of_group, lattice)).collect();
    let bands: Vec<Range<usize>> = frame.bands(lattice.grid[0]).collect();
    let at_once = (BLOCK / (lanes * pixels.max(frame.size[0] * frame.size[1])).max(1)).clamp(1, blocks.len());
    let tasks = blocks.len().div_ceil(at_once);
    let work = 2 * images * channels * pixels * (8 + lattice.taps()) / PER_CYCLE;
    let offsets: Vec<Vec<usize>> = lattice.phases.iter().map(|phase| frame.offsets(phase)).collect();
    let of_band = frame.rows * lattice.pace[0] * lattice.size[1] * lanes;
    parallel::for_each(images * bands.len() * tasks, work, |task| {
        let (image, first) = (task / tasks / bands.len(), task % tasks * at_once);
        let rows = &bands[task / tasks % bands.len()];
        let written = lattice.written(&Band { images: image..image + 1, rows: rows.clone() });
        scratch::with(frame.len() + of_band, |buffer: &mut [T]| {
            let (data, sums) = buffer.split_at_mut(frame.len());
            let sums = &mut sums[..written.len() * lattice.size[1] * lanes];
            for (block, weights) in blocks.iter().zip(&weights).skip(first).take(at_once) {
                frame.fill(&source, image, block.clone(), rows, data);
                let rows = written.len();
                dispatch_at(level, Pixels { frame, lattice, offsets: &offsets, rows, data, weights, sums: &mut *sums });
                let place = [image, block.start, written.start * target.size[1]];
                // SAFETY: tasks differ in the image, the rows or the channels that they store.
                unsafe { target.store_vectors(place, block.len(), lanes, sums) };
            }
        });
    });
}

/// The kernels of a block, `[phases][taps][lanes]`.
fn weights<'a, T: Full>(
    block: &Range<usize>,
    lanes: usize,
    of_group: &(dyn Fn(usize) -> Weights<'a, T> + Sync),
    lattice: &Lattice,
) -> Vec<T> {
    let mut all = vec![T::ZERO; lattice.taps() * lanes];
    for (lane, group) in block.clone().enumerate() {
        let kernel = of_group(group);
        let taps = lattice.phases.iter().flat_map(|phase| &phase.taps);
        all.chunks_exact_mut(lanes).zip(taps).for_each(|(weights, tap)| weights[lane] = kernel.data[tap.at]);
    }
    all
}

/// All pixels of some rows.
struct Pixels<'a, T> {
    frame: Frame,
    lattice: &'a Lattice,
    /// Where the first pixel reads with each tap of each phase.
    offsets: &'a [Vec<usize>],
    /// How many are written.
    rows: usize,
    data: &'a [T],
    /// Of each tap of each phase, `[lanes]`.
    weights: &'a [T],
    /// `[pixels][lanes]` of the output.
    sums: &'a mut [T],
}

impl<T: Real> Kernel for Pixels<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { frame, lattice, offsets, rows, data, weights, sums } = self;
        let (width, [down, across], lanes) = (lattice.size[1], lattice.pace, frame.lanes);
        let (steps, mut weights) = (frame.steps(), weights);
        for (index, taps) in offsets.iter().enumerate() {
            let of_phase;
            (of_phase, weights) = weights.split_at(taps.len() * lanes);
            let (top, left) = (index / across, index % across);
            let columns = (width - left).div_ceil(across);
            let neighbours = neighbours::<S>(taps, [steps[1], lanes]);
            let size = pixels_at_once(columns);
            let line = Line { taps, weights: of_phase, step: steps[1], across, lanes, neighbours };
            for (gy, y) in (top..rows).step_by(down).enumerate() {
                let (data, sums) = (&data[gy * steps[0]..], &mut sums[(y * width + left) * lanes..]);
                match size {
                    8 => line.lanes::<S, 8>(columns, data, sums),
                    7 => line.lanes::<S, 7>(columns, data, sums),
                    6 => line.lanes::<S, 6>(columns, data, sums),
                    NEXT => line.lanes::<S, NEXT>(columns, data, sums),
                    _ => line.lanes::<S, 1>(columns, data, sums),
                }
            }
        }
    }
}

/// What the pixels of a row have in common.
struct Line<'a, T> {
    /// Where the first pixel reads with each tap.
    taps: &'a [usize],
    /// `[taps][lanes]`.
    weights: &'a [T],
    /// Elements from pixel to pixel of what is read.
    step: usize,
    /// Pixels from sum to sum.
    across: usize,
    lanes: usize,
    /// See [`neighbours`].
    neighbours: usize,
}

impl<T: Real> Line<'_, T> {
    /// All pixels of a row of at least `R`, as many at a time: the last overlap those before them.
    ///
    /// Some lanes of all rows before the next lanes, so that rows stay in the L1 cache: 64 or 128 no faster, 16 a fifth slower.
    #[inline(always)]
    fn lanes<S: Simd, const R: usize>(&self, columns: usize, data: &[T], sums: &mut [T]) {
        let (lanes, next) = (self.lanes, self.across * self.lanes);
        let fits = |tap: &usize| tap + (columns - 1) * self.step + lanes <= data.len();
        assert!(columns >= R && lanes.is_multiple_of(LANES) && (columns - 1) * next + lanes <= sums.len());
        assert!(self.taps.iter().all(fits) && self.weights.len() >= self.taps.len() * lanes);
        // SAFETY: of each pixel below `columns` all lanes are in `data`, for every tap, and in `sums`, and of every tap in the
        // weights.
        unsafe {
            match self.neighbours {
                7 => self.pixels::<S, R, 7>(columns, data.as_ptr(), sums.as_mut_ptr()),
                5 => self.pixels::<S, R, 5>(columns, data.as_ptr(), sums.as_mut_ptr()),
                TAPS => self.pixels::<S, R, TAPS>(columns, data.as_ptr(), sums.as_mut_ptr()),
                _ => self.pixels::<S, R, 1>(columns, data.as_ptr(), sums.as_mut_ptr()),
            }
        }
    }

    /// [`Self::lanes`] of taps that are rows of `K` neighbours, or of any if that is 1.
    ///
    /// # Safety
    /// All lanes must be readable for every tap of each pixel, and of the weights of every tap, and writable for each pixel.
    #[inline(always)]
    unsafe fn pixels<S: Simd, const R: usize, const K: usize>(&self, columns: usize, data: *const T, sums: *mut T) {
        let (lanes, next) = (self.lanes, self.across * self.lanes);
        for lane in (0..lanes).step_by(LANES) {
            for x in (0..columns).step_by(R) {
                let x = x.min(columns - R);
                // SAFETY: the caller's duty; `lane` and the fifteen after it are some of the lanes.
                unsafe {
                    let (data, weights) = (data.add(x * self.step + lane), self.weights.as_ptr().add(lane));
                    let of_pixels = match K {
                        1 => self.apart::<S, R>(weights, data),
                        _ => self.shared::<S, R, K>(weights, data),
                    };
                    let sums = sums.add(x * next + lane);
                    for (r, sum) in of_pixels.into_iter().enumerate() {
                        sum.store(&mut *sums.add(r * next).cast());
                    }
                }
            }
        }
    }

    /// # Safety
    /// A vector must be readable for every tap of `R` pixels, and of the weights of every tap.
    #[inline(always)]
    unsafe fn apart<S: Simd, const R: usize>(&self, weights: *const T, data: *const T) -> [T::Lanes<S>; R] {
        let mut of_pixels = [T::Lanes::<S>::splat(T::ZERO); R];
        for (i, &offset) in self.taps.iter().enumerate() {
            // SAFETY: the caller's duty.
            unsafe {
                let weights = vector::<T, S>(weights.add(i * self.lanes));
                for (r, sum) in of_pixels.iter_mut().enumerate() {
                    *sum = vector::<T, S>(data.add(offset + r * self.step)).mul_add(weights, *sum);
                }
            }
        }
        of_pixels
    }

    /// [`Self::apart`] where each vector is read once for the `K` taps of a row.
    ///
    /// On a core of Zen 4, 5 x 5 and 7 x 7 over channels of 14 by 14 to 56 by 56 take 0.75 to 0.8 of the time.
    ///
    /// # Safety
    /// As [`Self::apart`].
    #[inline(always)]
    unsafe fn shared<S: Simd, const R: usize, const K: usize>(
        &self,
        weights: *const T,
        data: *const T,
    ) -> [T::Lanes<S>; R] {
        let (lanes, mut of_pixels) = (self.lanes, [T::Lanes::<S>::splat(T::ZERO); R]);
        for (row, offsets) in self.taps.as_chunks::<K>().0.iter().enumerate() {
            // SAFETY: the caller's duty; what the last tap of a pixel reads ends what is read up to it.
            unsafe {
                let at = |i: usize| vector::<T, S>(data.add(offsets[0] + i * lanes));
                let weights: [_; K] = std::array::from_fn(|i| vector::<T, S>(weights.add((row * K + i) * lanes)));
                let mut read: [_; K] = std::array::from_fn(|i| at(i.saturating_sub(1)));
                for (r, sum) in of_pixels.iter_mut().enumerate() {
                    read = moved(read, at(r + K - 1));
                    for (read, weights) in read.into_iter().zip(weights) {
                        *sum = read.mul_add(weights, *sum);
                    }
                }
            }
        }
        of_pixels
    }
}
