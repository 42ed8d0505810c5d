//! Gradient of a convolution with respect to its kernel: that of each output pixel times the vectors it was made of.
//!
//! A band of pixels is summed as it lies ([`plain`]), or with the images of a pixel one after the other ([`batch`]).

mod batch;
mod grad_panels;
mod order;
mod part;
mod plain;

use super::lattice::Lattice;
use super::tile::{Convolve, Kernel};
use crate::gemm::product::{PER_CYCLE, Threads};
use crate::num::{Num, Real};
use crate::output::Output;
use crate::simd::Level;
use crate::storage::Element;
use crate::transpose::transpose;
use crate::{Storage, View, parallel, scratch};
use batch::Batch;
pub(super) use batch::takes_batches;
use part::Part;

/// The most partial sums there may be.
const PARTS: usize = 8;
/// Elements that fill a line of the cache, or two or four.
pub(super) const CACHE_LINE: usize = 32;

/// How the work is cut.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Elements of the source, and of the gradient, in a band: enough pixels that adding to the partial sums costs little.
    pub band: usize,
    /// The same for bands of whole batches that are added to the gradient itself.
    pub whole: usize,
    /// Elements of all partial sums together.
    pub partial: usize,
}

/// Those of every machine.
///
/// Of whole batches with AMX, 256 channels of 8 by 8 (128 images) take a tenth less in two bands than in eight that are summed in
/// parts.
pub(super) const LIMITS: Limits = Limits { band: 1 << 18, whole: 1 << 20, partial: 1 << 21 };

/// Where the gradient goes.
pub(super) struct Target<'a> {
    /// `[outputs, inputs, kh, kw]`.
    pub shape: [usize; 4],
    pub into: &'a mut Storage,
    /// Whether it is added to what is there.
    pub accumulate: bool,
}

/// Computes the gradient.
///
/// The bands are dealt to a number of partial sums that depends on the shapes alone; these are added in order.
pub(super) fn compute<E: Convolve>(grad: &View, x: &View, lattice: &Lattice, target: Target) {
    let groups = x.layout.shape[1] / target.shape[1].max(1);
    let kernel = E::for_weight_grad(Level::current(), target.shape[0] / groups.max(1));
    compute_with(kernel, LIMITS, grad, x, lattice, target);
}

/// [`compute`] with a given kernel, cut as given.
///
/// Nothing is written twice: the first band of a part stores its sums and a fresh gradient is stored, not added to
/// zeros. A weight of 512 x 512 x 3 x 3 is 9 MB, and each pass over it that falls away is 2 % of its gradient at 32 images.
pub(super) fn compute_with<E: Convolve>(
    kernel: Kernel<E>,
    limits: Limits,
    grad: &View,
    x: &View,
    lattice: &Lattice,
    Target { shape: weight, into, accumulate }: Target,
) {
    let ([outputs, inputs, kh, kw], size) = (weight, into.len());
    if size == 0 {
        return;
    }
    let groups = x.layout.shape[1] / inputs;
    let channels = inputs.max(outputs / groups / lattice.step.iter().product::<usize>());
    let (images, elements) = (x.layout.shape[0], limits.band.max(size / 2));
    // Partial sums of so large a gradient would cost more than they gain.
    let (turns, large) = (inputs.is_multiple_of(kernel.columns), limits.partial / size < PARTS);
    let of_batch = if turns && large { limits.whole.max(elements) } else { elements };
    let batches = kernel.streamed().zip(Batch::bands(images, channels, lattice, of_batch));
    let (streamed, bands) = match batches {
        Some((tile, bands)) => (Some(tile), bands),
        None => (None, lattice.bands_for(images, channels, elements)),
    };
    if bands.is_empty() {
        return;
    }
    let parts = (limits.partial / size).clamp(2, PARTS).min(bands.len());
    let pixels = grad.layout.count() / outputs;
    let threads = if parts < PARTS { Threads::Many } else { Threads::One };
    let of_band = |band, sums, start: usize, accumulate, turned| {
        for group in 0..groups {
            let outputs = [group * (outputs / groups), outputs / groups];
            let start = start + outputs[0] * inputs * kh * kw;
            let part = Part { kernel, lattice, band, outputs, sums, start, accumulate, turned, threads };
            let inputs = [group * inputs, inputs];
            match streamed {
                Some(tile) => part.add_batch(tile, grad, x, inputs),
                None => part.add(grad, x, inputs),
            }
        }
    };
    if turns && (bands.len() == 1 || large && streamed.is_some()) {
        let sums = Output::new(into);
        return bands.iter().enumerate().for_each(|(i, band)| of_band(band, sums, 0, accumulate || i > 0, true));
    }
    let mut partial = Storage::unwritten(E::Sum::DTYPE, parts * size);
    let sums = Output::new(&mut partial);
    parallel::for_each(parts, pixels * size / PER_CYCLE, |part| {
        let bands = &bands[bands.len() * part / parts..bands.len() * (part + 1) / parts];
        for (i, band) in bands.iter().enumerate() {
            of_band(band, sums, part * size, i > 0, false);
        }
    });
    let values = E::Sum::same(partial.as_slice()).expect("just made of this type");
    add_parts(values, parts, Target { shape: weight, into, accumulate });
}

/// Adds up the partial sums in order and writes or adds them to the gradient.
fn add_parts<T: Real>(values: &[T], parts: usize, Target { shape, into, accumulate }: Target) {
    let [outputs, inputs, kh, kw] = shape;
    let (size, taps) = (into.len(), kh * kw);
    let (output, row) = (Output::new(into), inputs * taps);
    parallel::for_each(outputs, 2 * parts * size, |o| {
        scratch::with(2 * row, |buffer: &mut [T]| {
            let (total, turned) = buffer.split_at_mut(row);
            let of_part = |part: usize| &values[part * size + o * row..][..row];
            let total = if parts == 1 { of_part(0) } else { added(parts, of_part, total) };
            // The sums list the channels of each tap, the kernel lists the taps of each channel.
            let turn = |to: &mut [T]| transpose(total, inputs, [taps, inputs], to, taps);
            // SAFETY: every task has its own output channel.
            unsafe {
                if accumulate {
                    turn(turned);
                    output.accumulate(o * row, 1, turned);
                } else {
                    turn(T::same_mut(&mut output.part(o * row, row)).expect("a gradient has the sums' type"));
                }
            }
        });
    });
}

/// The sum of two parts at least, in order.
fn added<'a, 'b, T: Real>(parts: usize, of_part: impl Fn(usize) -> &'b [T], total: &'a mut [T]) -> &'a [T] {
    let first = of_part(0).iter().zip(of_part(1));
    total.iter_mut().zip(first).for_each(|(total, (&a, &b))| *total = a + b);
    for part in (2..parts).map(of_part) {
        total.iter_mut().zip(part).for_each(|(total, &sum)| *total += sum);
    }
    total
}
