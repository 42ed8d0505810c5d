//! Which source pixels an output pixel gathers.

use super::Conv2d;
use std::ops::Range;

/// One element of the kernel: where it reads relative to the pixel, and its place in the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub y: isize,
    pub x: isize,
    pub at: usize,
}

/// A grid of output pixels; pixel `(gy, gx)` reads the source at `(gy * step[0] + tap.y, gx * step[1] + tap.x)`, or
/// zero outside of it, and is written to `(gy * pace[0] + start[0], gx * pace[1] + start[1])`.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    pub grid: [usize; 2],
    pub step: [usize; 2],
    pub taps: Vec<Tap>,
    pub pace: [usize; 2],
    pub start: [usize; 2],
}

impl Lattice {
    /// The convolution itself.
    pub(super) fn forward(spec: &Conv2d, grid: [usize; 2], kernel: [usize; 2]) -> Self {
        let place = |i: usize, k: usize| (k * spec.dilation[i]) as isize - spec.padding[i] as isize;
        let taps = (0..kernel[0] * kernel[1])
            .map(|at| Tap { y: place(0, at / kernel[1]), x: place(1, at % kernel[1]), at })
            .collect();
        Self { grid, step: spec.stride, taps, pace: [1; 2], start: [0; 2] }
    }

    /// The transposed convolution with a result of `size`: one lattice for each remainder of the position by the stride,
    /// with just the taps that reach it.
    pub(super) fn transposed(spec: &Conv2d, size: [usize; 2], kernel: [usize; 2]) -> Vec<Self> {
        let phases = (0..spec.stride[0]).flat_map(|y| (0..spec.stride[1]).map(move |x| [y, x]));
        phases
            .filter(|start| start[0] < size[0] && start[1] < size[1])
            .map(|start| {
                let along = |i: usize, k: usize| {
                    let stride = spec.stride[i] as isize;
                    let distance = (start[i] + spec.padding[i]) as isize - (k * spec.dilation[i]) as isize;
                    (distance % stride == 0).then_some(distance / stride)
                };
                let taps = (0..kernel[0] * kernel[1])
                    .filter_map(|at| Some(Tap { y: along(0, at / kernel[1])?, x: along(1, at % kernel[1])?, at }))
                    .collect();
                let grid = std::array::from_fn(|i| (size[i] - start[i]).div_ceil(spec.stride[i]));
                Self { grid, step: [1; 2], taps, pace: spec.stride, start }
            })
            .collect()
    }

    /// The parts that tasks work on: rows of one image, or several whole images when they are small.
    pub(super) fn bands(&self, images: usize, channels: usize) -> Vec<Band> {
        /// Pixels that fill the columns of a block, and source elements that stay in the L2 cache.
        const PIXELS: usize = 192;
        const SOURCE: usize = 1 << 17;
        let [height, width] = self.grid;
        let pixels = height * width;
        if pixels == 0 {
            return Vec::new();
        }
        if pixels <= PIXELS {
            let count = (PIXELS / pixels).max(1);
            let starts = (0..images).step_by(count);
            return starts.map(|n| Band { images: n..images.min(n + count), rows: 0..height }).collect();
        }
        let line = (channels * width * self.step[0] * self.step[1]).max(1);
        let rows = (SOURCE / line).max(PIXELS.div_ceil(width)).min(height);
        let rows = height.div_ceil(height.div_ceil(rows));
        (0..images)
            .flat_map(|n| {
                (0..height).step_by(rows).map(move |y| Band { images: n..n + 1, rows: y..height.min(y + rows) })
            })
            .collect()
    }
}

/// A part of the output pixels: some rows of some images.
#[derive(Clone, Debug)]
pub(super) struct Band {
    pub images: Range<usize>,
    pub rows: Range<usize>,
}
