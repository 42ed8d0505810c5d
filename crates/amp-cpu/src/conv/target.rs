//! What convolutions compute: the images of a result, and how finished sums are stored there.

use super::tile::{End, Ends, Rows};
use crate::num::Real;
use crate::output::{Finished, Output};
use crate::scratch::Plain;
use crate::transpose::transpose;
use crate::{MemoryOrder, Storage, scratch};

/// Pixels that are turned at a time.
pub(super) const TURNED: usize = 64;

/// The images that are computed, and what is added to them.
pub(super) struct Target<'a, T> {
    output: Output<'a>,
    pub per_group: usize,
    channels: usize,
    pub size: [usize; 2],
    bias: &'a [T],
    pub order: MemoryOrder,
    /// Whether sums are added to what is there, of their type and with the channels of a pixel together.
    accumulate: bool,
}

impl<'a, T: Real> Target<'a, T> {
    pub(super) fn new(
        storage: &'a mut Storage,
        per_group: usize,
        channels: usize,
        size: [usize; 2],
        bias: &'a [T],
        order: MemoryOrder,
    ) -> Self {
        Self { output: Output::new(storage), per_group, channels, size, bias, order, accumulate: false }
    }

    /// Images that sums are added to: the channels of a pixel lie together.
    pub(super) fn onto(storage: &'a mut Storage, per_group: usize, channels: usize, size: [usize; 2]) -> Self {
        assert_eq!(storage.dtype(), T::DTYPE, "images have the type that is added");
        let target = Self::new(storage, per_group, channels, size, &[], MemoryOrder::ChannelsLast);
        Self { accumulate: true, ..target }
    }

    /// Where a channel of an image's pixel lies, if the channels of a pixel lie together.
    fn place(&self, [image, channel, pixel]: [usize; 3]) -> usize {
        (image * self.size[0] * self.size[1] + pixel) * self.channels + channel
    }

    /// Adds the bias to `count` neighbouring channels of pixels, from an image's channel and pixel on, and stores them where
    /// the channels of a pixel lie together: the first values of vectors of `len`, one for each pixel.
    ///
    /// # Safety
    /// No other thread may store these channels of these pixels meanwhile.
    pub(super) unsafe fn store_pixels(
        &self,
        [image, channel, first]: [usize; 3],
        count: usize,
        len: usize,
        vectors: &mut [T],
    ) {
        let bias = self.bias.get(channel..channel + count).unwrap_or_default();
        let at = self.place([image, channel, first]);
        if self.accumulate {
            for (pixel, vector) in vectors.chunks_exact(len).enumerate() {
                // SAFETY: the caller's duty.
                unsafe { self.output.accumulate(at + pixel * self.channels, 1, &vector[..count]) };
            }
            return;
        }
        // SAFETY: the caller's duty.
        unsafe { self.output.store_rows(at, self.channels, count, bias, Finished { values: vectors, len }) }
    }

    /// Where tiles may store sums themselves, `columns` channels of `count` pixels from an image's channel and pixel on: if
    /// they lie together there, as sums or as results of this type, and take no bias.
    pub(super) fn finish<R: Plain>(
        &self,
        [image, channel, first]: [usize; 3],
        columns: usize,
        count: usize,
    ) -> Option<Ends<T, R>> {
        if self.order != MemoryOrder::ChannelsLast || !self.bias.is_empty() {
            return None;
        }
        let at = self.place([image, channel, first]);
        let sums = self.output.rows(at, self.channels, count, columns).map(|to| Rows { to, stride: self.channels });
        if self.accumulate {
            return sums.map(|sums| Ends { begin: Some(sums), end: End::Sums(sums) });
        }
        let results = self.output.rows(at, self.channels, count, columns);
        let results = results.map(|to| End::Results(Rows { to, stride: self.channels }));
        results.or(sums.map(End::Sums)).map(|end| Ends { begin: None, end })
    }

    /// Where results may be rounded to with the bias, which comes with it, `columns` channels of `count` pixels from an image's channel
    /// and pixel on: if they are of this type and lie together there.
    pub(super) fn rounded<R: Plain>(
        &self,
        [image, channel, first]: [usize; 3],
        columns: usize,
        count: usize,
    ) -> Option<(Rows<R>, &'a [T])> {
        if self.order != MemoryOrder::ChannelsLast || self.accumulate {
            return None;
        }
        let at = self.place([image, channel, first]);
        let to = self.output.rows(at, self.channels, count, columns)?;
        Some((Rows { to, stride: self.channels }, self.bias.get(channel..channel + columns).unwrap_or_default()))
    }

    /// Prefetches all channels of `count` pixels, where they lie together.
    pub(super) fn prefetch(&self, image: usize, first: usize, count: usize) {
        if self.order == MemoryOrder::ChannelsLast {
            let at = self.place([image, 0, first]);
            self.output.prefetch(at, 0, 1, count * self.channels);
        }
    }

    /// [`Self::store_pixels`], in either order.
    ///
    /// # Safety
    /// No other thread may store these channels of these pixels meanwhile.
    pub(super) unsafe fn store_vectors(&self, place: [usize; 3], count: usize, len: usize, vectors: &mut [T]) {
        if self.order == MemoryOrder::ChannelsLast {
            // SAFETY: the caller's duty.
            return unsafe { self.store_pixels(place, count, len, vectors) };
        }
        let pixels = vectors.len() / len;
        scratch::with(pixels * count, |lines: &mut [T]| {
            transpose(vectors, len, [pixels, count], lines, pixels);
            // SAFETY: as above.
            unsafe { self.store_lines(place, pixels, pixels, lines) };
        });
    }

    /// Adds the bias to pixels of neighbouring channels, from an image's channel and pixel on, and stores them: the first
    /// `count` values of lines of `len`.
    ///
    /// # Safety
    /// No other thread may store these pixels meanwhile.
    pub(super) unsafe fn store_lines(
        &self,
        [image, channel, first]: [usize; 3],
        count: usize,
        len: usize,
        lines: &mut [T],
    ) {
        if self.order == MemoryOrder::ChannelsLast {
            let channels = lines.len() / len;
            scratch::with(TURNED * channels, |turned: &mut [T]| {
                for start in (0..count).step_by(TURNED) {
                    let pixels = TURNED.min(count - start);
                    let turned = &mut turned[..pixels * channels];
                    transpose(&lines[start..], len, [channels, pixels], turned, channels);
                    // SAFETY: the caller's duty.
                    unsafe { self.store_pixels([image, channel, first + start], channels, channels, turned) };
                }
            });
            return;
        }
        if !self.bias.is_empty() {
            for (line, &bias) in lines.chunks_exact_mut(len).zip(&self.bias[channel..]) {
                line[..count].iter_mut().for_each(|value| *value += bias);
            }
        }
        let (plane, lines) = (self.size[0] * self.size[1], Finished { values: lines, len });
        // SAFETY: the caller's duty.
        unsafe { self.output.store_rows((image * self.channels + channel) * plane + first, plane, count, &[], lines) }
    }
}
