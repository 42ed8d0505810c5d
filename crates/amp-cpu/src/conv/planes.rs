//! Zero-padded scratch copies of the part of a source that a band reads.

use super::lattice::{Band, Lattice, Tap};
use crate::View;
use crate::gemm::panel::interleave;
use crate::load::load;
use crate::num::Real;
use crate::scratch;
use std::ops::Range;

/// Which elements of the scratch are neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// The pixels of a channel; patches list the taps of each channel. For sums over patches.
    Planar,
    /// The channels of a pixel; patches list the channels of each tap. For sums over pixels.
    ChannelsLast,
}

/// Where the elements of a band's patches lie in its scratch.
///
/// The scratch is the part of the source that the band reads, zero outside of the image, each row split by the
/// remainder of the position by the horizontal step so that neighbouring pixels always read neighbouring elements.
/// The element of a pixel and of a place in its patch lies at the sum of the two offsets.
pub(super) struct Planes {
    order: Order,
    low: [isize; 2],
    rows: usize,
    /// Length of one phase of a row.
    phase: usize,
    step: usize,
    channels: usize,
    /// Offset of each pixel.
    pub pixels: Vec<usize>,
    /// Offset of each place in a patch.
    pub patch: Vec<usize>,
}

impl Planes {
    pub(super) fn new(lattice: &Lattice, band: &Band, channels: usize, order: Order) -> Self {
        let reach = |i: usize, tap: fn(&Tap) -> isize| {
            let lowest = lattice.taps.iter().map(tap).min().unwrap_or(0);
            let highest = lattice.taps.iter().map(tap).max().unwrap_or(0);
            let grid = if i == 0 { band.rows.clone() } else { 0..lattice.grid[1] };
            let first = (grid.start * lattice.step[i]) as isize + lowest;
            let last = ((grid.end - 1) * lattice.step[i]) as isize + highest;
            (first, (last - first) as usize + 1)
        };
        let ((top, rows), (left, columns)) = (reach(0, |t| t.y), reach(1, |t| t.x));
        let (step, low) = (lattice.step[1], [top, left]);
        let (phase, pixels, patch) = (columns.div_ceil(step), Vec::new(), Vec::new());
        let mut planes = Self { order, low, rows, phase, step, channels, pixels, patch };
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

    /// Distance between neighbouring pixels, and between neighbouring channels.
    fn strides(&self) -> (usize, usize) {
        match self.order {
            Order::Planar => (1, self.plane()),
            Order::ChannelsLast => (self.channels, 1),
        }
    }

    /// Elements of the scratch of a band.
    pub(super) fn len(&self, band: &Band) -> usize {
        band.images.len() * self.channels * self.plane()
    }

    fn pixel_offsets(&self, lattice: &Lattice, band: &Band) -> Vec<usize> {
        let (unit, _) = self.strides();
        let mut offsets = Vec::with_capacity(band.images.len() * band.rows.len() * lattice.grid[1]);
        for image in 0..band.images.len() {
            for y in 0..band.rows.len() {
                let start = image * self.channels * self.plane() + y * lattice.step[0] * self.line() * unit;
                offsets.extend((0..lattice.grid[1]).map(|x| start + x * unit));
            }
        }
        offsets
    }

    fn patch_offsets(&self, lattice: &Lattice, band: &Band) -> Vec<usize> {
        let (unit, next) = self.strides();
        let top = self.low[0] - (band.rows.start * lattice.step[0]) as isize;
        let place = |tap: &Tap| {
            let (y, x) = ((tap.y - top) as usize, (tap.x - self.low[1]) as usize);
            (y * self.line() + x % self.step * self.phase + x / self.step) * unit
        };
        let (taps, channels) = (&lattice.taps, 0..self.channels);
        match self.order {
            Order::Planar => channels.flat_map(|c| taps.iter().map(move |tap| c * next + place(tap))).collect(),
            Order::ChannelsLast => {
                taps.iter().flat_map(|tap| channels.clone().map(move |c| c * next + place(tap))).collect()
            }
        }
    }

    /// Widens the band's part of the source, channels `first..first + self.channels`, into `out`.
    pub(super) fn fill<T: Real>(&self, source: &View, band: &Band, first: usize, out: &mut [T]) {
        let (shape, strides) = (&source.layout.shape, &source.layout.strides);
        let inside = inside(self.low[0], self.rows, shape[2]);
        out.fill(T::default());
        let images = out.chunks_exact_mut((self.channels * self.plane()).max(1));
        for (image, out) in band.images.clone().zip(images) {
            for y in inside.clone() {
                let start = source.layout.offset + image * strides[0] + y * strides[2];
                let row = (y as isize - self.low[0]) as usize * self.line();
                let channels = (first..first + self.channels).map(|channel| start + channel * strides[1]);
                match self.order {
                    Order::Planar => {
                        for (from, plane) in channels.zip(out.chunks_exact_mut(self.plane())) {
                            self.fill_line(source, from, &mut plane[row..row + self.line()]);
                        }
                    }
                    Order::ChannelsLast => scratch::with(self.channels * self.line(), |lines: &mut [T]| {
                        lines.fill(T::default());
                        for (from, line) in channels.zip(lines.chunks_exact_mut(self.line())) {
                            self.fill_line(source, from, line);
                        }
                        let pixels = &mut out[row * self.channels..][..lines.len()];
                        interleave(lines, self.line(), self.line(), self.channels, pixels);
                    }),
                }
            }
        }
    }

    /// Widens one row of the source, which begins at `from`.
    fn fill_line<T: Real>(&self, source: &View, from: usize, line: &mut [T]) {
        let stride = source.layout.strides[3];
        let columns = inside(self.low[1], self.line(), source.layout.shape[3]);
        let (from, left) = (from + columns.start * stride, (columns.start as isize - self.low[1]) as usize);
        if self.step == 1 {
            return load(source, from, stride, &mut line[left..left + columns.len()]);
        }
        scratch::with(columns.len(), |row: &mut [T]| {
            load(source, from, stride, row);
            for (x, &value) in (left..).zip(&*row) {
                line[x % self.step * self.phase + x / self.step] = value;
            }
        });
    }
}

/// The part of `low..low + extent` that lies within `0..size`.
fn inside(low: isize, extent: usize, size: usize) -> Range<usize> {
    let start = low.clamp(0, size as isize) as usize;
    start..((low + extent as isize).clamp(start as isize, size as isize) as usize)
}
