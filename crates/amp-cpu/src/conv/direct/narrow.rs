//! Depthwise convolutions of narrow images: a vector is the same pixel of sixteen channels.
//!
//! Rows shorter than a vector leave lanes unused where neighbouring pixels are summed side by side. Sixteen channels that
//! are turned fill them whatever the width, zeros around the image are few, and what a slope multiplies needs no sum over
//! lanes. On a core of Zen 5, 3 x 3 over 256 channels of 8 by 8 takes 0.55 of the time that it takes with pixels side by
//! side, forward and backward, channels of 4 by 4 take 0.4 and every second pixel of 8 by 8 a quarter. Of what is left three
//! tenths go into turning the source there and back, which images with the channels of a pixel together would not need, a
//! fifth into multiplying, three tenths into widening and rounding, the rest into reading the source from memory.

use super::super::gather::Target;
use super::super::images::Images;
use super::super::lattice::{Lattice, Phase, Tap};
use super::super::pack::Weights;
use crate::gemm::kernel::Full;
use crate::gemm::product::PER_CYCLE;
use crate::num::Real;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch_at};
use crate::transpose::transpose;
use crate::{View, parallel, scratch};
use std::ops::Range;

/// Most pixels of a frame: with what is summed, sixteen of them stay in the L2 cache.
const PIXELS: usize = 1 << 10;
/// Elements of a source that a task computes.
const BLOCK: usize = 1 << 13;
/// Pixels that are summed at a time, and in longer rows.
const NEXT: usize = 4;
const WIDE: usize = 8;
/// Taps of a kernel that are summed at a time.
const TAPS: usize = 3;

/// An image with the zeros around it that are read, `[rows][columns][LANES]`.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    size: [usize; 2],
    /// Rows and columns of zeros before the image.
    before: [usize; 2],
    /// Rows and columns in all.
    all: [usize; 2],
    step: [usize; 2],
}

impl Frame {
    /// The frame of images that are better turned: narrow ones of many groups of one channel; `None` for others.
    pub(super) fn new(lattice: &Lattice, size: [usize; 2], groups: usize, channels: usize) -> Option<Self> {
        let narrow = 3 * lattice.grid[1] <= 2 * LANES && groups >= LANES / 2 && channels == 1;
        let taps = || lattice.phases.iter().flat_map(|phase| &phase.taps);
        let (grid, step) = (lattice.grid, lattice.step);
        let along = |i: usize, of: fn(&Tap) -> isize| {
            let before = taps().map(of).min().unwrap_or(0).min(0).unsigned_abs();
            let last = taps().map(of).max().unwrap_or(0) + ((grid[i].max(1) - 1) * step[i]) as isize;
            (before, before + size[i].max(usize::try_from(last + 1).unwrap_or(0)))
        };
        let ((above, rows), (left, columns)) = (along(0, |tap| tap.y), along(1, |tap| tap.x));
        let pixels = rows.saturating_mul(columns).max(lattice.size[0] * lattice.size[1]);
        let frame = Self { size, before: [above, left], all: [rows, columns], step };
        (narrow && pixels <= PIXELS).then_some(frame)
    }

    /// Elements of sixteen channels.
    fn len(&self) -> usize {
        self.all[0] * self.all[1] * LANES
    }

    /// Where the first pixel reads with a tap.
    fn offset(&self, tap: &Tap) -> usize {
        let at = |i: usize, tap: isize| (self.before[i] as isize + tap) as usize;
        (at(0, tap.y) * self.all[1] + at(1, tap.x)) * LANES
    }

    /// [`Self::offset`] of each tap of a phase.
    fn offsets(&self, phase: &Phase) -> Vec<usize> {
        phase.taps.iter().map(|tap| self.offset(tap)).collect()
    }

    /// Elements from pixel to pixel, downwards and to the right.
    fn steps(&self) -> [usize; 2] {
        [self.step[0] * self.all[1] * LANES, self.step[1] * LANES]
    }

    /// Writes the channels of an image between the zeros, which must be there already.
    fn fill<T: Full>(&self, source: &Images, image: usize, channels: Range<usize>, frame: &mut [T]) {
        let ([height, width], line) = (self.size, self.all[1] * LANES);
        if height * width == 0 {
            return;
        }
        scratch::with(height * width * LANES, |turned: &mut [T]| {
            turn(source, image, channels, turned);
            let first = self.before[0] * line + self.before[1] * LANES;
            for (row, to) in turned.chunks_exact(width * LANES).zip(frame[first..].chunks_mut(line)) {
                to[..row.len()].copy_from_slice(row);
            }
        });
    }
}

/// Loads up to sixteen channels of an image as `[pixels][LANES]`.
fn turn<T: Full>(source: &Images, image: usize, channels: Range<usize>, turned: &mut [T]) {
    let (count, pixels) = (channels.len(), source.size[0] * source.size[1]);
    scratch::with(count * pixels, |loaded: &mut [T]| {
        source.load(image, channels.clone(), 0..source.size[0], loaded);
        source.prefetch_after(image, channels);
        transpose(loaded, pixels, [count, pixels], turned, LANES);
    });
}

/// Groups of up to sixteen channels.
pub(super) fn blocks(channels: usize) -> impl Iterator<Item = Range<usize>> {
    (0..channels).step_by(LANES).map(move |first| first..channels.min(first + LANES))
}

/// As [`super::gather::gather_at`].
pub(super) fn gather<'a, T: Full>(
    level: Level,
    frame: Frame,
    source: &View,
    of_group: &(dyn Fn(usize) -> Weights<'a, T> + Sync),
    lattice: &Lattice,
    target: &Target<T>,
) {
    let (images, channels) = (source.layout.shape[0], source.layout.shape[1]);
    let source = Images::new(source);
    let pixels = lattice.size[0] * lattice.size[1];
    let blocks: Vec<Range<usize>> = blocks(channels).collect();
    let weights: Vec<Vec<[T; LANES]>> = blocks.iter().map(|block| weights(block, of_group, lattice)).collect();
    let at_once = (BLOCK / (LANES * pixels.max(frame.size[0] * frame.size[1])).max(1)).clamp(1, blocks.len());
    let tasks = blocks.len().div_ceil(at_once);
    let work = 2 * images * channels * pixels * (8 + lattice.taps()) / PER_CYCLE;
    parallel::for_each(images * tasks, work, |task| {
        let (image, first) = (task / tasks, task % tasks * at_once);
        scratch::with(frame.len() + 2 * pixels * LANES, |buffer: &mut [T]| {
            let (data, buffer) = buffer.split_at_mut(frame.len());
            let (sums, lines) = buffer.split_at_mut(pixels * LANES);
            data.fill(T::ZERO);
            for (block, weights) in blocks.iter().zip(&weights).skip(first).take(at_once) {
                frame.fill(&source, image, block.clone(), data);
                dispatch_at(level, Pixels { frame, lattice, data, weights, sums: &mut *sums });
                let lines = &mut lines[..block.len() * pixels];
                transpose(sums, LANES, [pixels, block.len()], lines, pixels);
                // SAFETY: tasks differ in the image or the channels that they store.
                unsafe { target.store_lines([image, block.start, 0], pixels, pixels, lines) };
            }
        });
    });
}

/// The kernels of a block, `[phases][taps]`.
fn weights<'a, T: Full>(
    block: &Range<usize>,
    of_group: &(dyn Fn(usize) -> Weights<'a, T> + Sync),
    lattice: &Lattice,
) -> Vec<[T; LANES]> {
    let mut all = vec![[T::ZERO; LANES]; lattice.taps()];
    for (lane, group) in block.clone().enumerate() {
        let kernel = of_group(group);
        let taps = lattice.phases.iter().flat_map(|phase| &phase.taps);
        all.iter_mut().zip(taps).for_each(|(weights, tap)| weights[lane] = kernel.data[tap.at]);
    }
    all
}

/// All pixels of sixteen channels.
struct Pixels<'a, T> {
    frame: Frame,
    lattice: &'a Lattice,
    data: &'a [T],
    /// Of each tap of each phase.
    weights: &'a [[T; LANES]],
    /// `[pixels][LANES]` of the output.
    sums: &'a mut [T],
}

impl<T: Real> Kernel for Pixels<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { frame, lattice, data, weights, sums } = self;
        let ([height, width], [down, across]) = (lattice.size, lattice.pace);
        let (steps, mut weights) = (frame.steps(), weights);
        for (index, Phase { taps }) in lattice.phases.iter().enumerate() {
            let of_phase;
            (of_phase, weights) = weights.split_at(taps.len());
            let taps: Vec<(usize, &[T; LANES])> = taps.iter().map(|tap| frame.offset(tap)).zip(of_phase).collect();
            let (top, left) = (index / across, index % across);
            let line = Line { taps: &taps, step: steps[1], across, neighbours: neighbours(&taps, steps[1]) };
            let columns = (width - left).div_ceil(across);
            for (gy, y) in (top..height).step_by(down).enumerate() {
                let (data, sums) = (&data[gy * steps[0]..], &mut sums[(y * width + left) * LANES..]);
                match columns {
                    ..NEXT => line.pixels::<S, 1>(columns, data, sums),
                    NEXT..WIDE => line.pixels::<S, NEXT>(columns, data, sums),
                    _ => line.pixels::<S, WIDE>(columns, data, sums),
                }
            }
        }
    }
}

/// Whether taps are rows of three that read neighbours, so that pixels share what they read.
fn neighbours<T>(taps: &[(usize, &[T; LANES])], step: usize) -> bool {
    let (rows, rest) = taps.as_chunks::<TAPS>();
    let in_row = |row: &[(usize, &[T; LANES]); TAPS]| row[0].0 + LANES == row[1].0 && row[1].0 + LANES == row[2].0;
    step == LANES && rest.is_empty() && rows.iter().all(in_row)
}

/// What the pixels of a row have in common.
struct Line<'a, T> {
    taps: &'a [(usize, &'a [T; LANES])],
    /// Elements from pixel to pixel of what is read.
    step: usize,
    /// Vectors from sum to sum.
    across: usize,
    /// See [`neighbours`].
    neighbours: bool,
}

impl<T: Real> Line<'_, T> {
    /// All pixels of a row of at least `R`, as many at a time: the last overlap those before them.
    #[inline(always)]
    fn pixels<S: Simd, const R: usize>(&self, columns: usize, data: &[T], sums: &mut [T]) {
        for x in (0..columns).step_by(R) {
            let x = x.min(columns - R);
            let (data, to) = (&data[x * self.step..], &mut sums[x * self.across * LANES..]);
            let of_pixels = if self.neighbours { self.shared::<S, R>(data) } else { self.apart::<S, R>(data) };
            for (r, sum) in of_pixels.into_iter().enumerate() {
                sum.store(to[r * self.across * LANES..].first_chunk_mut().expect("a vector for each pixel"));
            }
        }
    }

    #[inline(always)]
    fn apart<S: Simd, const R: usize>(&self, data: &[T]) -> [T::Lanes<S>; R] {
        let mut of_pixels = [T::Lanes::<S>::splat(T::ZERO); R];
        for &(offset, weights) in self.taps {
            let weights = T::Lanes::<S>::load(weights);
            let data = &data[offset..][..(R - 1) * self.step + LANES];
            for (r, sum) in of_pixels.iter_mut().enumerate() {
                *sum = vector::<T, S>(data, r * self.step).mul_add(weights, *sum);
            }
        }
        of_pixels
    }

    /// [`Self::apart`] where each vector is read once for the three taps of a row.
    #[inline(always)]
    fn shared<S: Simd, const R: usize>(&self, data: &[T]) -> [T::Lanes<S>; R] {
        let mut of_pixels = [T::Lanes::<S>::splat(T::ZERO); R];
        for row in self.taps.as_chunks::<TAPS>().0 {
            let weights = row.map(|(_, weights)| T::Lanes::<S>::load(weights));
            let data = &data[row[0].0..][..(R + TAPS - 1) * LANES];
            let mut next = [vector::<T, S>(data, 0), vector::<T, S>(data, LANES)];
            for (r, sum) in of_pixels.iter_mut().enumerate() {
                let read = [next[0], next[1], vector::<T, S>(data, (r + 2) * LANES)];
                for (read, weights) in read.into_iter().zip(weights) {
                    *sum = read.mul_add(weights, *sum);
                }
                next = [read[1], read[2]];
            }
        }
        of_pixels
    }
}

/// The vector that begins at an element.
#[inline(always)]
fn vector<T: Real, S: Simd>(data: &[T], at: usize) -> T::Lanes<S> {
    Lanes::load(data[at..].first_chunk().expect("a vector for each pixel"))
}

/// The sums over some images of the kernels of up to sixteen channels, `[channels][taps]`, given to `store`.
pub(super) fn kernels<T: Full>(
    level: Level,
    frame: Frame,
    [grad, x]: [&Images; 2],
    lattice: &Lattice,
    images: Range<usize>,
    block: Range<usize>,
    store: &mut dyn FnMut(&[T]),
) {
    let (offsets, count) = (frame.offsets(&lattice.phases[0]), grad.size[0] * grad.size[1] * LANES);
    let taps = offsets.len();
    scratch::with(frame.len() + count + 2 * taps * LANES, |buffer: &mut [T]| {
        let (data, buffer) = buffer.split_at_mut(frame.len());
        let (slopes, buffer) = buffer.split_at_mut(count);
        let (sums, kernels) = buffer.split_at_mut(taps * LANES);
        data.fill(T::ZERO);
        sums.fill(T::ZERO);
        for image in images {
            frame.fill(x, image, block.clone(), data);
            turn(grad, image, block.clone(), slopes);
            let sums = sums.as_chunks_mut().0;
            dispatch_at(level, Slopes { frame, offsets: &offsets, data, slopes, width: grad.size[1], sums });
        }
        for (i, sums) in sums.chunks_exact(LANES).enumerate() {
            let at = lattice.phases[0].taps[i].at;
            sums.iter().enumerate().for_each(|(lane, &sum)| kernels[lane * taps + at] = sum);
        }
        store(&kernels[..block.len() * taps]);
    });
}

/// Adds the slopes of an image's pixels times what they read to the sums of each tap of sixteen channels.
struct Slopes<'a, T> {
    frame: Frame,
    offsets: &'a [usize],
    data: &'a [T],
    /// `[height][width][LANES]`.
    slopes: &'a [T],
    width: usize,
    sums: &'a mut [[T; LANES]],
}

impl<T: Real> Kernel for Slopes<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { frame, offsets, data, slopes, width, sums } = self;
        let steps = frame.steps();
        for (offsets, to) in offsets.chunks(TAPS).zip(sums.chunks_mut(TAPS)) {
            let three: [usize; TAPS] = std::array::from_fn(|i| offsets[i.min(offsets.len() - 1)]);
            let mut of_taps = [[T::Lanes::<S>::splat(T::ZERO); NEXT]; TAPS];
            for (y, slopes) in slopes.chunks_exact(width * LANES).enumerate() {
                let data = &data[y * steps[0]..];
                let whole = width / NEXT * NEXT;
                for x in (0..whole).step_by(NEXT) {
                    products::<T, S, NEXT>(&slopes[x * LANES..], &data[x * steps[1]..], steps[1], three, &mut of_taps);
                }
                for x in whole..width {
                    products::<T, S, 1>(&slopes[x * LANES..], &data[x * steps[1]..], steps[1], three, &mut of_taps);
                }
            }
            for ([a, b, c, d], to) in of_taps.into_iter().zip(to) {
                (T::Lanes::<S>::load(to) + ((a + b) + (c + d))).store(to);
            }
        }
    }
}

/// Adds the products of `R` pixels, each to a sum of its own.
#[inline(always)]
fn products<T: Real, S: Simd, const R: usize>(
    slopes: &[T],
    data: &[T],
    step: usize,
    offsets: [usize; TAPS],
    sums: &mut [[T::Lanes<S>; NEXT]; TAPS],
) {
    let slopes: [T::Lanes<S>; R] = std::array::from_fn(|r| vector::<T, S>(slopes, r * LANES));
    if step == LANES && offsets[0] + LANES == offsets[1] && offsets[1] + LANES == offsets[2] {
        // Neighbouring taps of neighbouring pixels read the same.
        let data = &data[offsets[0]..][..(R + TAPS - 1) * LANES];
        let mut next = [vector::<T, S>(data, 0), vector::<T, S>(data, LANES)];
        for (r, &slope) in slopes.iter().enumerate() {
            let read = [next[0], next[1], vector::<T, S>(data, (r + 2) * LANES)];
            for (read, sums) in read.into_iter().zip(sums.iter_mut()) {
                sums[r] = read.mul_add(slope, sums[r]);
            }
            next = [read[1], read[2]];
        }
        return;
    }
    for (offset, sums) in offsets.into_iter().zip(sums) {
        let data = &data[offset..][..(R - 1) * step + LANES];
        for (r, (slope, sum)) in slopes.iter().zip(sums).enumerate() {
            *sum = vector::<T, S>(data, r * step).mul_add(*slope, *sum);
        }
    }
}
