//! Convolution over a lattice: kernels times patches, packed from scratch planes.

use super::direct::Line;
use super::lattice::{Band, Lattice};
use super::planes::{Order, Planes};
use crate::gemm::kernel::Full;
use crate::gemm::operand::Gathered;
use crate::gemm::product::{PER_CYCLE, Packed, Sink, prepacked, product_shared};
use crate::num::Real;
use crate::output::Output;
use crate::simd::{Level, dispatch};
use crate::{Storage, View, parallel, scratch};

/// Most output channels of a group for which packing patches does not pay.
const DIRECT: usize = 2;

/// Distances in a kernel: from group to group, and to the next output and input channel of the gathering.
#[derive(Clone, Copy)]
pub(super) struct WeightStrides {
    pub group: usize,
    pub output: usize,
    pub input: usize,
}

/// The images that are computed, and what is added to them.
pub(super) struct Target<'a, T> {
    output: Output<'a>,
    per_group: usize,
    channels: usize,
    size: [usize; 2],
    bias: &'a [T],
}

impl<'a, T> Target<'a, T> {
    pub(super) fn new(
        storage: &'a mut Storage,
        per_group: usize,
        channels: usize,
        size: [usize; 2],
        bias: &'a [T],
    ) -> Self {
        Self { output: Output::new(storage), per_group, channels, size, bias }
    }
}

/// Computes one lattice of the target from all channels of `source`.
pub(super) fn gather<T: Full>(
    source: &View,
    weights: &[T],
    strides: WeightStrides,
    groups: usize,
    lattice: &Lattice,
    target: &Target<T>,
) {
    let channels = source.layout.shape[1] / groups;
    let bands = lattice.bands(source.layout.shape[0], channels);
    let depth: Vec<usize> = (0..channels)
        .flat_map(|channel| lattice.taps.iter().map(move |tap| channel * strides.input + tap.at))
        .collect();
    let rows: Vec<usize> = (0..target.per_group).map(|output| output * strides.output).collect();
    let kernel = T::kernel(Level::current());
    let pixels = lattice.grid.iter().product::<usize>() * source.layout.shape[0];
    let work = pixels * rows.len() * depth.len() / PER_CYCLE;
    let with_patches = |band: &Band, group: usize, body: &dyn Fn(&Gathered<T>, &Pixels<T>)| {
        let planes = Planes::new(lattice, band, channels, Order::Planar);
        scratch::with(planes.len(band), |data: &mut [T]| {
            planes.fill(source, band, group * channels, data);
            let patches = Gathered { data, rows: &planes.pixels, depth: &planes.patch };
            body(&patches, &Pixels { target, lattice, band, group });
        });
    };
    let of_group = |group: usize| Gathered { data: &weights[group * strides.group..], rows: &rows, depth: &depth };
    if groups == 1 {
        let left = of_group(0);
        let uses = if depth.is_empty() { 0 } else { bands.len() };
        return prepacked(&left, kernel.left, kernel.depth, uses, work, |left| {
            parallel::for_each(bands.len(), work, |i| {
                with_patches(&bands[i], 0, &|patches, sink| product_shared(kernel, left, patches, sink));
            });
        });
    }
    let direct = rows.len() <= DIRECT;
    parallel::for_each(groups * bands.len(), groups * if direct { 8 * work } else { work }, |i| {
        let (group, band) = (i / bands.len(), &bands[i % bands.len()]);
        let left = of_group(group);
        with_patches(band, group, &|patches, sink| {
            if direct {
                channel_by_channel(&left, patches, lattice.grid[1], sink);
            } else {
                product_shared(kernel, &Packed::later(&left, kernel.left), patches, sink);
            }
        });
    });
}

/// Computes the few output channels of a group one by one, line by line.
fn channel_by_channel<T: Full>(left: &Gathered<T>, patches: &Gathered<T>, width: usize, sink: &dyn Sink<T>) {
    scratch::with(left.depth.len() + patches.rows.len(), |buffer: &mut [T]| {
        let (weights, pixels) = buffer.split_at_mut(left.depth.len());
        for (row, &start) in left.rows.iter().enumerate() {
            weights.iter_mut().zip(left.depth).for_each(|(weight, &at)| *weight = left.data[start + at]);
            for (to, starts) in pixels.chunks_exact_mut(width).zip(patches.rows.chunks_exact(width)) {
                dispatch(Line { to, data: &patches.data[starts[0]..], offsets: patches.depth, weights });
            }
            sink.store(row, 0, pixels);
        }
    });
}

/// Stores the pixels of a band.
struct Pixels<'a, T> {
    target: &'a Target<'a, T>,
    lattice: &'a Lattice,
    band: &'a Band,
    group: usize,
}

impl<T: Real> Sink<T> for Pixels<'_, T> {
    fn store(&self, row: usize, column: usize, values: &mut [T]) {
        let channel = self.group * self.target.per_group + row;
        if let Some(&bias) = self.target.bias.get(channel) {
            values.iter_mut().for_each(|value| *value += bias);
        }
        let (Lattice { grid, pace, start, .. }, [height, width]) = (self.lattice, self.target.size);
        let dense = *pace == [1, 1] && grid[1] == width;
        let line = if dense { self.band.rows.len() * grid[1] } else { grid[1] };
        let mut done = 0;
        while done < values.len() {
            let (unit, within) = ((column + done) / line, (column + done) % line);
            let len = (line - within).min(values.len() - done);
            let (image, y) = if dense { (unit, 0) } else { (unit / self.band.rows.len(), unit % self.band.rows.len()) };
            let plane = ((self.band.images.start + image) * self.target.channels + channel) * height * width;
            let y = (self.band.rows.start + y) * pace[0] + start[0];
            let at = plane + y * width + within * pace[1] + start[1];
            // SAFETY: tasks differ in group, image, rows or lattice, so in the pixels they store; within one,
            // `store` calls never overlap (`Sink`).
            unsafe { self.target.output.store(at, pace[1], &values[done..done + len]) };
            done += len;
        }
    }
}
