//! Gradient of a convolution with respect to its kernel.

use super::direct::Weights;
use super::lattice::{Band, Lattice};
use super::planes::{Order, Planes};
use super::{Conv2d, sizes};
use crate::gemm::kernel::Full;
use crate::gemm::operand::Gathered;
use crate::gemm::product::{PER_CYCLE, Sink, Threads, product};
use crate::load::load;
use crate::num::Real;
use crate::output::Output;
use crate::simd::dispatch;
use crate::{Storage, View, parallel, scratch};

/// Elements of all partial sums together, and the most there may be of them.
const PARTIAL: usize = 1 << 21;
const PARTS: usize = 8;

/// Adds the gradient to `into`, which has shape `weight`.
///
/// The bands are dealt to a number of partial sums that depends on the shapes alone; these are added in order.
pub(super) fn accumulate<T: Full>(grad: &View, x: &View, weight: [usize; 4], spec: &Conv2d, into: &mut Storage) {
    let ([images, _, oh, ow], [outputs, inputs, kh, kw]) = (sizes(grad), weight);
    let lattice = Lattice::forward(spec, [oh, ow], [kh, kw]);
    let bands = lattice.bands(images, inputs);
    let size = into.len();
    if bands.is_empty() || size == 0 {
        return;
    }
    let parts = (PARTIAL / size).clamp(2, PARTS).min(bands.len());
    let threads = if parts < PARTS { Threads::Many } else { Threads::One };
    let work = images * oh * ow * size / PER_CYCLE;
    let per_group = outputs / spec.groups;
    let mut partial = Storage::zeros(T::DTYPE, parts * size);
    let sums = Output::new(&mut partial);
    parallel::for_each(parts, work, |part| {
        let mine = bands.len() * part / parts..bands.len() * (part + 1) / parts;
        for band in &bands[mine] {
            let planes = Planes::new(&lattice, band, inputs, Order::ChannelsLast);
            for group in 0..spec.groups {
                let start = part * size + group * per_group * inputs * kh * kw;
                let sink = Sums { sums, start, stride: inputs * kh * kw };
                one_band::<T>(grad, x, band, &planes, group, per_group, &sink, threads);
            }
        }
    });
    let values = T::same(partial.as_slice()).expect("just made of this type");
    let (output, taps) = (Output::new(into), kh * kw);
    // The sums list the channels of each tap, the kernel lists the taps of each channel.
    for part in values.chunks_exact(size) {
        for (row, of_row) in part.chunks_exact(inputs * taps).enumerate() {
            for (tap, channels) in of_row.chunks_exact(inputs).enumerate() {
                // SAFETY: only this thread is left.
                unsafe { output.accumulate(row * inputs * taps + tap, taps, channels) };
            }
        }
    }
    partial.recycle();
}

#[allow(clippy::too_many_arguments)]
fn one_band<T: Full>(
    grad: &View,
    x: &View,
    band: &Band,
    planes: &Planes,
    group: usize,
    per_group: usize,
    sink: &Sums,
    threads: Threads,
) {
    let pixels = planes.pixels.len() / band.images.len();
    scratch::with(planes.len(band), |data: &mut [T]| {
        planes.fill(x, band, group * x.layout.shape[1] / (grad.layout.shape[1] / per_group), data);
        scratch::with(per_group * planes.pixels.len(), |slopes: &mut [T]| {
            fill_gradient(grad, band, group * per_group, per_group, slopes);
            if per_group == 1 && x.layout.shape[1] == grad.layout.shape[1] {
                return one_channel(slopes, data, planes, grad.layout.shape[3], sink);
            }
            let rows: Vec<usize> = (0..per_group).map(|channel| channel * pixels).collect();
            let depth: Vec<usize> = (0..band.images.len())
                .flat_map(|image| (0..pixels).map(move |pixel| image * per_group * pixels + pixel))
                .collect();
            let left = Gathered { data: slopes, rows: &rows, depth: &depth };
            let right = Gathered { data, rows: &planes.patch, depth: &planes.pixels };
            product(&left, &right, sink, threads);
        });
    });
}

/// The band of a convolution of one channel with one kernel.
fn one_channel<T: Real>(slopes: &[T], data: &[T], planes: &Planes, width: usize, sink: &Sums) {
    let lines: Vec<usize> = planes.pixels.chunks_exact(width).map(|line| line[0]).collect();
    scratch::with(planes.patch.len(), |sums: &mut [T]| {
        sums.fill(T::default());
        dispatch(Weights { sums, slopes, data, lines: &lines, offsets: &planes.patch });
        sink.store(0, 0, sums);
    });
}

/// Widens the band's part of the gradient, as `[images, channels, pixels]`.
fn fill_gradient<T: Real>(grad: &View, band: &Band, first: usize, channels: usize, out: &mut [T]) {
    let (width, strides) = (grad.layout.shape[3], &grad.layout.strides);
    let mut lines = out.chunks_exact_mut(width);
    for image in band.images.clone() {
        for channel in first..first + channels {
            for (y, line) in band.rows.clone().zip(&mut lines) {
                let at = grad.layout.offset + image * strides[0] + channel * strides[1] + y * strides[2];
                load(grad, at, strides[3], line);
            }
        }
    }
}

/// Adds rows to one partial sum.
struct Sums<'a> {
    sums: Output<'a>,
    start: usize,
    stride: usize,
}

impl<T: Real> Sink<T> for Sums<'_> {
    fn store(&self, row: usize, column: usize, values: &mut [T]) {
        // SAFETY: every part has its own sums, every group its own rows, and `store` calls never overlap (`Sink`).
        unsafe { self.sums.accumulate(self.start + row * self.stride + column, 1, values) }
    }
}
