//! Images as kernels read them: `[N, C, H, W]` of any stored precision and strides, NCHW and NHWC (channels together) among them.

use crate::gemm::kernel::Multiply;
use crate::output::prefetch;
use crate::scratch;
use crate::transpose::transpose;
use crate::{Slice, View};
use std::ops::Range;

/// A view of images, its sizes and strides at hand.
pub(super) struct Images<'a> {
    /// The elements.
    pub view: &'a View<'a>,
    /// Height and width.
    pub size: [usize; 2],
    /// Distances between images, channels, rows and pixels.
    pub strides: [usize; 4],
}

impl<'a> Images<'a> {
    /// Panics unless they lie inside of the view's data.
    pub(super) fn new(view: &'a View<'a>) -> Self {
        view.assert_inside();
        let (shape, strides) = (&view.layout.shape, &view.layout.strides);
        Self { view, size: [shape[2], shape[3]], strides: std::array::from_fn(|i| strides[i]) }
    }

    /// Whether the channels of a pixel lie together.
    pub(super) fn together(&self) -> bool {
        self.strides[1] == 1 && self.strides[3] > 1
    }

    /// Position of the first pixel of a row.
    pub(super) fn start(&self, image: usize, channel: usize, y: usize) -> usize {
        self.view.layout.offset + image * self.strides[0] + channel * self.strides[1] + y * self.strides[2]
    }

    /// Loads rows of some channels, `[channels][rows][W]`, rounded to the type of `out`: as few and as long loads as the
    /// strides allow.
    pub(super) fn load<E: Multiply>(&self, image: usize, channels: Range<usize>, rows: Range<usize>, out: &mut [E]) {
        let ([_, next, row, pixel], [height, width]) = (self.strides, self.size);
        let span = rows.len() * width;
        if next == 1 && pixel > 1 && channels.len() > 1 {
            return self.turn(image, channels, rows, out);
        }
        if row != width * pixel {
            for (channel, out) in channels.zip(out.chunks_exact_mut(span)) {
                for (y, out) in rows.clone().zip(out.chunks_exact_mut(width)) {
                    E::load(self.view, self.start(image, channel, y), pixel, out);
                }
            }
        } else if rows.len() == height && next == height * row {
            E::load(self.view, self.start(image, channels.start, 0), pixel, &mut out[..channels.len() * span]);
        } else {
            for (channel, out) in channels.zip(out.chunks_exact_mut(span)) {
                E::load(self.view, self.start(image, channel, rows.start), pixel, out);
            }
        }
    }

    /// Loads a row of some channels, `[W][channels]`, rounded to the type of `out`.
    pub(super) fn load_pixels<E: Multiply>(&self, image: usize, channels: Range<usize>, y: usize, out: &mut [E]) {
        let (count, start, width) = (channels.len(), self.start(image, channels.start, y), self.size[1]);
        if self.strides[1] != 1 && count > 1 {
            return scratch::with(width * count, |lines: &mut [E]| {
                self.load(image, channels, y..y + 1, lines);
                transpose(lines, width, [count, width], out, count);
            });
        }
        if self.strides[3] == count {
            // A call for a stem's three channels takes as long as one for a row.
            return E::load(self.view, start, 1, out);
        }
        for (x, pixel) in out.chunks_exact_mut(count).enumerate() {
            E::load(self.view, start + x * self.strides[3], 1, pixel);
        }
    }

    /// [`load`](Self::load) where the channels of a pixel lie together.
    fn turn<E: Multiply>(&self, image: usize, channels: Range<usize>, rows: Range<usize>, out: &mut [E]) {
        let (count, width, span) = (channels.len(), self.size[1], rows.len() * self.size[1]);
        scratch::with(width * count, |pixels: &mut [E]| {
            for (i, y) in rows.enumerate() {
                self.load_pixels(image, channels.clone(), y, pixels);
                transpose(pixels, count, [width, count], &mut out[i * width..], span);
            }
        });
    }

    /// Prefetches what follows some channels in memory, as many elements: the next ones, where images are contiguous.
    ///
    /// Blocks of a few channels are shorter than the processor needs to see that they are read in order.
    pub(super) fn prefetch_after(&self, image: usize, channels: Range<usize>) {
        let len = channels.len() * self.strides[1];
        let start = self.start(image, channels.end, 0);
        let range = start..start.saturating_add(len);
        match self.view.data {
            Slice::F32(data) => data.get(range).map(prefetch),
            Slice::F64(data) => data.get(range).map(prefetch),
            Slice::BF16(data) => data.get(range).map(prefetch),
            Slice::F16(data) => data.get(range).map(prefetch),
            _ => None,
        };
    }
}
