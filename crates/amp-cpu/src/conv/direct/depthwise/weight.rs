//! Gradients with respect to kernels of depthwise convolutions: sixteen channels of every tap sum what they read times the
//! gradient of the pixels.

use super::super::super::images::Images;
use super::super::super::lattice::Lattice;
use super::{Frame, NEXT, TAPS, load, moved, neighbours, turn, vector};
use crate::gemm::kernel::Full;
use crate::num::Real;
use crate::scratch;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch_at};
use std::ops::Range;

/// The sums over some images of the kernels of a block of channels, `[channels][taps]`, given to `store`.
pub(in crate::conv::direct) fn kernels<T: Full>(
    level: Level,
    frame: Frame,
    [grad, x]: [&Images; 2],
    lattice: &Lattice,
    images: Range<usize>,
    block: Range<usize>,
    store: &mut dyn FnMut(&[T]),
) {
    let (offsets, lanes, [height, width]) = (frame.offsets(&lattice.phases[0]), frame.lanes, grad.size);
    let (taps, count) = (offsets.len(), frame.rows * width * lanes);
    scratch::with(frame.len() + count + 2 * taps * lanes, |buffer: &mut [T]| {
        let (data, buffer) = buffer.split_at_mut(frame.len());
        let (loaded, buffer) = buffer.split_at_mut(count);
        let (sums, kernels) = buffer.split_at_mut(taps * lanes);
        sums.fill(T::ZERO);
        for image in images {
            for band in frame.bands(height) {
                frame.fill(x, image, block.clone(), &band, data);
                let loaded = &mut loaded[..band.len() * width * lanes];
                if frame.turned {
                    turn(grad, image, block.clone(), loaded);
                } else {
                    let rows = loaded.chunks_exact_mut((width * lanes).max(1));
                    rows.zip(band).for_each(|(row, y)| load(grad, [image, y], &block, 0..width, lanes, row));
                }
                dispatch_at(level, Band { frame, offsets: &offsets, data, grad: loaded, width, sums: &mut *sums });
            }
        }
        for (i, sums) in sums.chunks_exact(lanes).enumerate() {
            let at = lattice.phases[0].taps[i].at;
            sums.iter().take(block.len()).enumerate().for_each(|(lane, &sum)| kernels[lane * taps + at] = sum);
        }
        store(&kernels[..block.len() * taps]);
    });
}

/// Adds the gradient of a band's pixels times what they read to the sums of each tap.
struct Band<'a, T> {
    frame: Frame,
    offsets: &'a [usize],
    data: &'a [T],
    /// `[height][width][lanes]`.
    grad: &'a [T],
    width: usize,
    /// `[taps][lanes]`.
    sums: &'a mut [T],
}

impl<T: Real> Kernel for Band<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let Self { frame, offsets, data, grad, width, .. } = self;
        let ([down, across], lanes) = (frame.steps(), frame.lanes);
        let rows = grad.len() / (width * lanes);
        let fits = |tap: &usize| tap + (rows - 1) * down + (width - 1) * across + lanes <= data.len();
        assert!(rows > 0 && lanes.is_multiple_of(LANES) && offsets.iter().all(fits));
        let neighbours = neighbours::<S>(offsets, [across, lanes]);
        let square = neighbours == TAPS && offsets.len() == TAPS * TAPS;
        for lane in (0..lanes).step_by(LANES) {
            // SAFETY: all lanes of every pixel are in `data`, for every tap (asserted above), and `grad` has `rows` rows.
            unsafe {
                match neighbours {
                    TAPS if square => self.shared::<S, TAPS, TAPS>(rows, lane),
                    7 => self.shared::<S, 1, 7>(rows, lane),
                    5 => self.shared::<S, 1, 5>(rows, lane),
                    TAPS => self.shared::<S, 1, TAPS>(rows, lane),
                    _ => self.apart::<S>(rows, lane),
                }
            }
        }
    }
}

impl<T: Real> Band<'_, T> {
    /// [`Self::apart`] where the taps are rows of `K` neighbours: gradient and pixels are read once for `L` rows.
    ///
    /// 3 x 3 over 256 channels of 8 by 8 in BF16 takes 0.65 to 0.7 of the time that three taps after the other took, 64 of 32 by
    /// 32 0.75. With both gradients, 5 x 5 takes 0.72 of the time that three taps of a row at a time took on a core of Zen 4, 7 x 7 0.8.
    ///
    /// # Safety
    /// As [`Self::apart`].
    #[inline(always)]
    unsafe fn shared<S: Simd, const L: usize, const K: usize>(&mut self, rows: usize, lane: usize) {
        let Self { frame, offsets, data, grad, width, ref mut sums } = *self;
        let (down, lanes, zero) = (frame.steps()[0], frame.lanes, T::Lanes::<S>::splat(T::ZERO));
        for (first, offsets) in (0..).step_by(L * K).zip(offsets.chunks_exact(L * K)) {
            let mut of_taps = [[zero; K]; L];
            for y in 0..rows {
                // SAFETY: the caller's duty; what the last tap of a pixel reads ends what is read up to it.
                unsafe {
                    let grad = grad.as_ptr().add(y * width * lanes + lane);
                    let lines: [*const T; L] =
                        std::array::from_fn(|line| data.as_ptr().add(offsets[line * K] + y * down + lane));
                    let at = |line: *const T, i: usize| vector::<T, S>(line.add(i * lanes));
                    let mut read = lines.map(|line| std::array::from_fn(|i| at(line, i.saturating_sub(1))));
                    for x in 0..width {
                        let g = vector::<T, S>(grad.add(x * lanes));
                        for ((&line, read), sums) in lines.iter().zip(&mut read).zip(&mut of_taps) {
                            *read = moved::<_, K>(*read, at(line, x + K - 1));
                            for (sum, read) in sums.iter_mut().zip(*read) {
                                *sum = read.mul_add(g, *sum);
                            }
                        }
                    }
                }
            }
            for (tap, sum) in (first..).zip(of_taps.into_iter().flatten()) {
                let to = sums[tap * lanes + lane..].first_chunk_mut().expect("a vector for each tap");
                (T::Lanes::<S>::load(to) + sum).store(to);
            }
        }
    }

    /// Sixteen lanes of all taps.
    ///
    /// # Safety
    /// These lanes of every pixel of the rows must be readable, for every tap, and of the gradient.
    #[inline(always)]
    unsafe fn apart<S: Simd>(&mut self, rows: usize, lane: usize) {
        let Self { frame, offsets, data, grad, width, ref mut sums } = *self;
        let ([down, across], lanes) = (frame.steps(), frame.lanes);
        let whole = width / NEXT * NEXT;
        for (first, offsets) in (0..).step_by(TAPS).zip(offsets.chunks(TAPS)) {
            let three: [usize; TAPS] = std::array::from_fn(|i| offsets[i.min(offsets.len() - 1)]);
            let mut of_taps = [[T::Lanes::<S>::splat(T::ZERO); NEXT]; TAPS];
            for y in 0..rows {
                // SAFETY: the caller's duty.
                unsafe {
                    let grad = grad.as_ptr().add(y * width * lanes + lane);
                    let data = data.as_ptr().add(y * down + lane);
                    for x in (0..whole).step_by(NEXT) {
                        let (grad, data) = (grad.add(x * lanes), data.add(x * across));
                        products::<T, S, NEXT>(grad, data, [across, lanes], three, &mut of_taps);
                    }
                    for x in whole..width {
                        let (grad, data) = (grad.add(x * lanes), data.add(x * across));
                        products::<T, S, 1>(grad, data, [across, lanes], three, &mut of_taps);
                    }
                }
            }
            for (tap, [a, b, c, d]) in (first..).zip(of_taps).take(offsets.len()) {
                let to = sums[tap * lanes + lane..].first_chunk_mut().expect("a vector for each tap");
                (T::Lanes::<S>::load(to) + ((a + b) + (c + d))).store(to);
            }
        }
    }
}

/// Adds the products of `R` pixels, each to a sum of its own.
///
/// # Safety
/// A vector must be readable for each of the pixels' gradients and taps.
#[inline(always)]
unsafe fn products<T: Real, S: Simd, const R: usize>(
    grad: *const T,
    data: *const T,
    [step, lanes]: [usize; 2],
    offsets: [usize; TAPS],
    sums: &mut [[T::Lanes<S>; NEXT]; TAPS],
) {
    // SAFETY: the caller's duty.
    unsafe {
        let grad: [T::Lanes<S>; R] = std::array::from_fn(|r| vector::<T, S>(grad.add(r * lanes)));
        for (offset, sums) in offsets.into_iter().zip(sums) {
            for (r, (g, sum)) in grad.iter().zip(sums).enumerate() {
                *sum = vector::<T, S>(data.add(offset + r * step)).mul_add(*g, *sum);
            }
        }
    }
}
