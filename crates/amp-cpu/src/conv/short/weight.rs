//! Its gradient with respect to kernels: the patches of neighbouring pixels, as panels of terms, times the gradient of these
//! pixels where it lies.

use super::super::direct::in_parts;
use super::super::images::Images;
use super::super::lattice::Lattice;
use super::super::tile::{Kernel, Reading, WeightGrad};
use super::Frame;
use crate::gemm::kernel::Multiply;
use crate::gemm::product::PER_CYCLE;
use crate::scratch::{same_bytes, same_bytes_mut};
use crate::transpose::transpose;
use crate::{Storage, View, scratch};
use half::bf16;
use std::ops::Range;

/// Pixels that are summed at a time: their gradient and patches stay in the L1 cache.
const PIXELS: usize = 128;
/// Elements of a row that are copied at a time.
const COPIED: usize = 16;

/// Adds the gradient with respect to kernels of shape `weight` to `into`; does nothing and says so where the result's gradient does
/// not lie as a kernel reads it.
pub(in crate::conv) fn accumulate(
    kernel: Kernel<bf16>,
    grad: &View,
    x: &View,
    weight: [usize; 4],
    lattice: &Lattice,
    into: &mut Storage,
) -> bool {
    let (Reading::Direct(_, [weight_grad, _]), Some(stored)) = (kernel.reading, bf16::stored(grad)) else {
        return false;
    };
    if !Images::new(grad).together() || !weight[0].is_multiple_of(kernel.columns) {
        return false;
    }
    let (images, [outputs, channels, ..], [height, width]) = (x.layout.shape[0], weight, lattice.grid);
    let at_once = (PIXELS / width).max(1);
    let (frame, terms) = (Frame::new(lattice, channels, at_once), into.len() / outputs);
    let (grad, x) = (Images::new(grad), Images::new(x));
    let [.., down, across] = grad.strides;
    let pixels = (0..at_once).flat_map(|y| (0..width).map(move |x| y * down + x * across)).collect();
    let short = Short { kernel, weight_grad, grad, stored, x, frame, at_once, pixels, outputs, terms };
    let work = images * height * width * outputs * (8 + terms) / PER_CYCLE;
    in_parts::<f32>([1, images], work, into, &|_, images, give| {
        short.sum(images, height, &mut |sums| give(0, sums));
    });
    true
}

struct Short<'a> {
    kernel: Kernel<bf16>,
    weight_grad: WeightGrad<bf16>,
    grad: Images<'a>,
    /// What `grad` is a view of.
    stored: &'a [bf16],
    x: Images<'a>,
    frame: Frame,
    /// Rows that are summed at a time.
    at_once: usize,
    /// Where the gradient of their pixels lies.
    pixels: Vec<usize>,
    outputs: usize,
    /// Of a kernel.
    terms: usize,
}

impl Short<'_> {
    /// Gives the sums over some images, `[outputs][terms]`.
    fn sum(&self, images: Range<usize>, height: usize, give: &mut dyn FnMut(&[f32])) {
        let (outputs, terms, planes) = (self.outputs, self.terms, self.frame.len() + COPIED);
        let padded = terms.next_multiple_of(self.kernel.rows);
        let stride = self.stride();
        scratch::with((padded + terms) * outputs, |sums: &mut [f32]| {
            let (sums, kernels) = sums.split_at_mut(padded * outputs);
            sums.fill(0.0);
            scratch::with(planes + COPIED + 2 * padded * stride, |buffer: &mut [bf16]| {
                let (panels, buffer) = buffer.split_at_mut(padded * stride);
                let (lines, data) = buffer.split_at_mut(padded * stride);
                for image in images {
                    for band in self.frame.bands(height) {
                        self.frame.fill(&self.x, image, &band, data);
                        for y in (0..band.len()).step_by(self.at_once) {
                            let rows = self.at_once.min(band.len() - y);
                            self.interleave(&data[y * self.frame.line..], rows, lines, panels);
                            self.multiply(self.grad.start(image, 0, band.start + y), rows, panels, sums);
                        }
                    }
                }
            });
            transpose(sums, outputs, [terms, outputs], kernels, terms);
            give(kernels);
        });
    }

    /// Elements from line to line of the patches.
    fn stride(&self) -> usize {
        (self.pixels.len() + COPIED).next_multiple_of(2 * COPIED)
    }

    /// Writes what the pixels of some rows read as panels `[pairs of pixels][rows of a tile][2]`.
    fn interleave(&self, data: &[bf16], rows: usize, lines: &mut [bf16], panels: &mut [bf16]) {
        let (width, stride, tile) = (self.frame.width, self.stride(), self.kernel.rows);
        let count = rows * width;
        for (line, &offset) in lines.chunks_exact_mut(stride).zip(&self.frame.offsets) {
            for y in 0..rows {
                let from = &data[offset + y * self.frame.line..];
                for x in (0..width).step_by(COPIED) {
                    let copied: &[bf16; COPIED] = from[x..].first_chunk().expect("planes end in as many more");
                    line[y * width + x..][..COPIED].copy_from_slice(copied);
                }
            }
            line[count..count.next_multiple_of(2)].fill(bf16::ZERO);
        }
        let (lines, panels) = (same_bytes::<_, u32>(lines), same_bytes_mut::<_, u32>(panels));
        let of_panel = tile * stride / 2;
        for (lines, panel) in lines.chunks_exact(of_panel).zip(panels.chunks_exact_mut(of_panel)) {
            transpose(lines, stride / 2, [tile, count.div_ceil(2)], panel, tile);
        }
    }

    /// Adds the products with the gradient of some rows, which begins at `start`, to `sums`, `[terms][outputs]`.
    fn multiply(&self, start: usize, rows: usize, panels: &[bf16], sums: &mut [f32]) {
        let (Kernel { rows: tile, columns, .. }, outputs) = (self.kernel, self.outputs);
        let (grad, pixels) = (&self.stored[start..], &self.pixels[..rows * self.frame.width]);
        let last = pixels.iter().max().copied().unwrap_or(0);
        assert!(last + outputs <= grad.len() && outputs.is_multiple_of(columns));
        for (panel, sums) in panels.chunks_exact(tile * self.stride()).zip(sums.chunks_exact_mut(tile * outputs)) {
            assert!(pixels.len().next_multiple_of(2) * tile <= panel.len());
            for output in (0..outputs).step_by(columns) {
                let (grad, sums) = (grad[output..].as_ptr(), sums[output..].as_mut_ptr());
                // SAFETY: `columns` outputs of every pixel, and the panel's terms of it, are there (asserted); `sums` has a
                // row of all outputs for each term; a `Kernel` is only made for levels that the CPU has.
                unsafe { (self.weight_grad)(panel.as_ptr(), grad, pixels, sums, outputs, true) };
            }
        }
    }
}
