//! Which source pixels an output pixel gathers.

use super::Conv2d;
use crate::View;
use crate::load::load;
use crate::num::Real;
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

/// Where the elements of a band's patches lie in its scratch planes.
///
/// The planes are the part of the source that the band reads, zero outside of the image, each row split by the
/// remainder of the position by the horizontal step so that neighbouring pixels always read neighbouring elements.
pub(super) struct Planes {
    low: [isize; 2],
    rows: usize,
    /// Length of one phase of a row.
    phase: usize,
    step: usize,
    channels: usize,
    /// Offset of each pixel.
    pub pixels: Vec<usize>,
    /// Offset of each channel and tap.
    pub patch: Vec<usize>,
}

impl Planes {
    pub(super) fn new(lattice: &Lattice, band: &Band, channels: usize) -> Self {
        let reach = |i: usize, tap: fn(&Tap) -> isize| {
            let lowest = lattice.taps.iter().map(tap).min().unwrap_or(0);
            let highest = lattice.taps.iter().map(tap).max().unwrap_or(0);
            let grid = if i == 0 { band.rows.clone() } else { 0..lattice.grid[1] };
            let first = (grid.start * lattice.step[i]) as isize + lowest;
            let last = ((grid.end - 1) * lattice.step[i]) as isize + highest;
            (first, (last - first) as usize + 1)
        };
        let ((top, rows), (left, columns)) = (reach(0, |t| t.y), reach(1, |t| t.x));
        let step = lattice.step[1];
        let mut planes = Self {
            low: [top, left],
            rows,
            phase: columns.div_ceil(step),
            step,
            channels,
            pixels: Vec::new(),
            patch: Vec::new(),
        };
        planes.pixels = planes.pixel_offsets(lattice, band);
        planes.patch = planes.patch_offsets(lattice, band);
        planes
    }

    fn line(&self) -> usize {
        self.phase * self.step
    }

    fn plane(&self) -> usize {
        self.rows * self.line()
    }

    /// Elements of the scratch planes of a band.
    pub(super) fn len(&self, band: &Band) -> usize {
        band.images.len() * self.channels * self.plane()
    }

    fn pixel_offsets(&self, lattice: &Lattice, band: &Band) -> Vec<usize> {
        let mut offsets = Vec::with_capacity(band.images.len() * band.rows.len() * lattice.grid[1]);
        for image in 0..band.images.len() {
            for y in 0..band.rows.len() {
                let start = image * self.channels * self.plane() + y * lattice.step[0] * self.line();
                offsets.extend(start..start + lattice.grid[1]);
            }
        }
        offsets
    }

    fn patch_offsets(&self, lattice: &Lattice, band: &Band) -> Vec<usize> {
        let top = self.low[0] - (band.rows.start * lattice.step[0]) as isize;
        let mut offsets = Vec::with_capacity(self.channels * lattice.taps.len());
        for channel in 0..self.channels {
            for tap in &lattice.taps {
                let (y, x) = ((tap.y - top) as usize, (tap.x - self.low[1]) as usize);
                offsets.push(channel * self.plane() + y * self.line() + x % self.step * self.phase + x / self.step);
            }
        }
        offsets
    }

    /// Widens the band's part of the source, channels `first..first + self.channels`, into `out`.
    pub(super) fn fill<T: Real>(&self, source: &View, band: &Band, first: usize, out: &mut [T]) {
        let (shape, strides) = (&source.layout.shape, &source.layout.strides);
        let mut planes = out.chunks_exact_mut(self.plane());
        let inside = |low: isize, extent: usize, size: usize| {
            let start = low.clamp(0, size as isize) as usize;
            start..((low + extent as isize).clamp(start as isize, size as isize) as usize)
        };
        let rows = inside(self.low[0], self.rows, shape[2]);
        let columns = inside(self.low[1], self.line(), shape[3]);
        let mut line = vec![T::default(); if self.step > 1 { columns.len() } else { 0 }];
        for image in band.images.clone() {
            for (channel, plane) in (first..first + self.channels).zip(&mut planes) {
                plane.fill(T::default());
                let start = source.layout.offset + image * strides[0] + channel * strides[1];
                for y in rows.clone() {
                    let to = &mut plane[(y as isize - self.low[0]) as usize * self.line()..][..self.line()];
                    let from = start + y * strides[2] + columns.start * strides[3];
                    let left = (columns.start as isize - self.low[1]) as usize;
                    if self.step == 1 {
                        load(source, from, strides[3], &mut to[left..left + columns.len()]);
                    } else {
                        load(source, from, strides[3], &mut line);
                        for (x, &value) in (left..).zip(&line) {
                            to[x % self.step * self.phase + x / self.step] = value;
                        }
                    }
                }
            }
        }
    }
}
