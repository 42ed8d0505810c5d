//! Packing of the gradient: the panels that a weight gradient multiplies the vectors of pixels by.

use super::super::images::Images;
use super::super::lattice::Band;
use super::super::tile::{Convolve, Kernel, Reading};
use super::CACHE_LINE;
use super::order::Order;
use crate::gemm::panel::pair;
use crate::output::prefetch;
use crate::scratch;
use crate::transpose::transpose;

/// Groups of pixels that are prefetched.
const AHEAD: usize = 8;
/// Groups that are interleaved before they are copied: what has just been written is waited for where it is read across its
/// vectors. Gradients take two threads of Zen 5 0.94 to 1.0 of the time that one at a time took, of 1 x 1 by steps of two 0.83 to
/// 0.94.
const GROUPS: usize = 8;
/// Pixels that are turned at a time.
const TURNED: usize = 64;

/// The gradient of a group's outputs, and the order in which panels list the pixels.
pub(super) struct GradPanels<'a, E: Convolve> {
    pub kernel: Kernel<E>,
    pub grad: Images<'a>,
    /// First output channel, and how many.
    pub outputs: [usize; 2],
    pub order: &'a Order,
}

impl<E: Convolve> GradPanels<'_, E> {
    /// Writes the panels of all outputs, each `[pixels][rows]` in the kernel's groups, for a band of rows of `width` pixels;
    /// rows and pixels are padded with zeros.
    pub(super) fn pack(&self, band: &Band, width: usize, out: &mut [E]) {
        let Kernel { rows, step, reading, .. } = self.kernel;
        let padded = self.order.pixels.len().next_multiple_of(step);
        let together = self.grad.together();
        if together && matches!(reading, Reading::Direct(..)) {
            return self.interleave(&self.vectors(band, width), padded, out);
        }
        let vectors = if together { self.vectors(band, width) } else { Vec::new() };
        for (panel, out) in out.chunks_exact_mut(rows * padded).enumerate() {
            self.panel(panel * rows, band, width, &vectors, out);
        }
    }

    /// Where the channels of each pixel begin, in order.
    fn vectors(&self, band: &Band, width: usize) -> Vec<usize> {
        let image = band.rows.len() * width;
        let at = |pixel: usize| {
            let (y, x) = (band.rows.start + pixel % image / width, pixel % width);
            self.grad.start(band.images.start + pixel / image, self.outputs[0], y) + x * self.grad.strides[3]
        };
        (0..self.order.pixels.len()).map(|place| at(self.order.pixel(place))).collect()
    }

    /// Writes all panels from images whose pixels have their channels together.
    ///
    /// Interleaved from where it lies: copying it first was 0.9 % of a step of ResNet-18, but interleaving then waited for it as
    /// long; with memory that is prefetched interleaving takes 1.1 % where both took 1.6.
    fn interleave(&self, vectors: &[usize], padded: usize, out: &mut [E]) {
        let Kernel { rows, group, .. } = self.kernel;
        let (outputs, of_panel) = (self.outputs[1], rows * group);
        let whole = outputs.next_multiple_of(rows);
        scratch::with(group * (outputs + GROUPS * whole), |buffer: &mut [E]| {
            let (loaded, interleaved) = buffer.split_at_mut(group * outputs);
            interleaved.fill(E::default());
            for start in (0..vectors.len().div_ceil(group)).step_by(GROUPS) {
                let vectors = &vectors[start * group..];
                let groups = vectors.len().div_ceil(group).min(GROUPS);
                for (i, interleaved) in interleaved.chunks_exact_mut(group * whole).take(groups).enumerate() {
                    self.interleave_group(&vectors[i * group..], loaded, interleaved);
                }
                for panel in 0..whole / rows {
                    let out = &mut out[panel * rows * padded + start * of_panel..][..groups * of_panel];
                    for (interleaved, out) in
                        interleaved.chunks_exact(group * whole).zip(out.chunks_exact_mut(of_panel))
                    {
                        copy(&interleaved[panel * of_panel..][..of_panel], out);
                    }
                }
            }
        });
    }

    /// Interleaves the vectors of the first group of pixels; `loaded` is where they are loaded to, if they have to be.
    fn interleave_group(&self, vectors: &[usize], loaded: &mut [E], interleaved: &mut [E]) {
        let (group, outputs, stored) = (self.kernel.group, self.outputs[1], E::stored(self.grad.view));
        let here = &vectors[..group.min(vectors.len())];
        if let (Some(stored), Some(ahead)) = (stored, vectors.get(AHEAD * group..)) {
            ahead.iter().take(group).for_each(|&at| prefetch(&stored[at..][..outputs]));
        }
        if stored.is_none() || here.len() < group {
            self.load_pixels(here, loaded);
        }
        let line = |of: usize| match (stored, here.get(of)) {
            (Some(stored), Some(&at)) => &stored[at..][..outputs],
            _ => &loaded[of * outputs..][..outputs],
        };
        match group {
            1 => interleaved[..outputs].copy_from_slice(line(0)),
            2 => pair(line(0), line(1), interleaved[..2 * outputs].as_chunks_mut().0),
            group => unreachable!("no kernel has groups of {group}"),
        }
    }

    /// Loads the vectors of a group's pixels, zeros for those that it has not.
    fn load_pixels(&self, vectors: &[usize], loaded: &mut [E]) {
        let outputs = self.outputs[1];
        loaded[vectors.len() * outputs..].fill(E::default());
        for (&at, loaded) in vectors.iter().zip(loaded.chunks_exact_mut(outputs)) {
            E::load(self.grad.view, at, 1, loaded);
        }
    }

    /// Writes the panel whose first output is `first`.
    fn panel(&self, first: usize, band: &Band, width: usize, vectors: &[usize], out: &mut [E]) {
        let Kernel { rows, group, step, reading, .. } = self.kernel;
        let (outputs, count) = (rows.min(self.outputs[1] - first), self.order.pixels.len());
        let padded = count.next_multiple_of(step);
        // Lines that lie a power of two apart would push each other out of the L1 cache.
        let stride = padded + CACHE_LINE;
        scratch::with(rows * stride, |lines: &mut [E]| {
            if !vectors.is_empty() {
                self.turn(first, outputs, vectors, lines, stride);
            }
            for (i, line) in lines.chunks_exact_mut(stride).enumerate() {
                let (line, rest) = line.split_at_mut(if i < outputs { count } else { 0 });
                if i < outputs && vectors.is_empty() {
                    self.load(self.outputs[0] + first + i, band, width, line);
                    self.order.arrange(line);
                }
                rest.fill(E::default());
            }
            if let Reading::Packed(gemm) = reading {
                return gemm.left.interleave(lines, stride, padded, out);
            }
            if group == 1 {
                return transpose(lines, stride, [rows, padded], out, rows);
            }
            let (lines, out) = (scratch::same_bytes::<E, u32>(lines), scratch::same_bytes_mut::<E, u32>(out));
            transpose(lines, stride / group, [rows, padded / group], out, rows);
        });
    }

    /// Lines of some outputs from images whose pixels have their channels together.
    fn turn(&self, first: usize, outputs: usize, vectors: &[usize], lines: &mut [E], stride: usize) {
        scratch::with(TURNED * outputs, |loaded: &mut [E]| {
            for (i, vectors) in vectors.chunks(TURNED).enumerate() {
                for (&at, loaded) in vectors.iter().zip(loaded.chunks_exact_mut(outputs)) {
                    E::load(self.grad.view, at + first, 1, loaded);
                }
                transpose(loaded, outputs, [vectors.len(), outputs], &mut lines[i * TURNED..], stride);
            }
        });
    }

    /// Loads the band's pixels of an output channel.
    fn load(&self, channel: usize, Band { images, rows }: &Band, width: usize, line: &mut [E]) {
        for (image, line) in images.clone().zip(line.chunks_exact_mut(rows.len() * width)) {
            self.grad.load(image, channel..channel + 1, rows.clone(), line);
        }
    }
}

/// Copies a few elements, without a call for the usual numbers of them.
fn copy<E: Copy>(from: &[E], to: &mut [E]) {
    macro_rules! known {
        ($($len:literal)*) => {
            match from.len() {
                $($len => *to.first_chunk_mut::<$len>().expect("as long") = *from.first_chunk().expect("as long"),)*
                _ => to.copy_from_slice(from),
            }
        };
    }
    known! { 8 11 12 16 22 24 }
}
