//! Convolution of channels on their own (depthwise): too little arithmetic for packed products.

use crate::num::Real;
use crate::simd::{Kernel, Simd};

/// Pixels that are summed side by side.
const LANES: usize = 16;

/// One line of output pixels: `to[x] = Σ weights[i] * data[offsets[i] + x]`.
pub(super) struct Line<'a, T> {
    pub to: &'a mut [T],
    pub data: &'a [T],
    pub offsets: &'a [usize],
    pub weights: &'a [T],
}

impl<T: Real> Kernel for Line<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let len = self.to.len();
        for x in (0..len).step_by(LANES) {
            // The last vector overlaps the one before it rather than leave single pixels.
            let x = x.min(len.saturating_sub(LANES));
            if let Some(to) = self.to[x..].first_chunk_mut::<LANES>() {
                let mut sums = [T::ZERO; LANES];
                for (&offset, &weight) in self.offsets.iter().zip(self.weights) {
                    let from = self.data[offset + x..].first_chunk::<LANES>().expect("a pixel for each lane");
                    for i in 0..LANES {
                        sums[i] = from[i].mul_add::<S>(weight, sums[i]);
                    }
                }
                *to = sums;
            } else {
                for (i, to) in self.to.iter_mut().enumerate() {
                    let taps = self.offsets.iter().zip(self.weights);
                    *to = taps.fold(T::ZERO, |sum, (&at, &weight)| self.data[at + i].mul_add::<S>(weight, sum));
                }
            }
        }
    }
}

/// Gradient of the weights of one channel: `sums[i] += Σ slopes[pixel] * data[pixels[pixel] + offsets[i]]`.
pub(super) struct Weights<'a, T> {
    pub sums: &'a mut [T],
    pub slopes: &'a [T],
    pub data: &'a [T],
    /// Where each line of pixels begins.
    pub lines: &'a [usize],
    pub offsets: &'a [usize],
}

impl<T: Real> Kernel for Weights<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = self.slopes.len() / self.lines.len().max(1);
        for (sum, &offset) in self.sums.iter_mut().zip(self.offsets) {
            let mut lanes = [T::ZERO; LANES];
            for (slopes, &start) in self.slopes.chunks_exact(width).zip(self.lines) {
                let data = &self.data[start + offset..][..width];
                let ((slopes, rest), (data, data_rest)) = (slopes.as_chunks::<LANES>(), data.as_chunks::<LANES>());
                for (slope, from) in slopes.iter().zip(data) {
                    for i in 0..LANES {
                        lanes[i] = slope[i].mul_add::<S>(from[i], lanes[i]);
                    }
                }
                for ((lane, &slope), &from) in lanes.iter_mut().zip(rest).zip(data_rest) {
                    *lane = slope.mul_add::<S>(from, *lane);
                }
            }
            *sum += lanes.iter().fold(T::ZERO, |sum, &lane| sum + lane);
        }
    }
}
