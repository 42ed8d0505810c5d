//! Convolution of few channels at a time (depthwise, most of all): too little arithmetic for tiles.
//!
//! Neighbouring pixels of a row are summed side by side, sixteen in a vector, so a scratch plane holds the pixels of one
//! channel as they lie in the image, zeros around them ([`planes`]). Tasks take the channels of an image that stay in the
//! caches: widen them, copy them into planes, sum, round.
//!
//! On a core of Zen 5, 3 x 3 over 64 channels of 32 by 32 F32 moves about half the bytes in a second that a copy does. Rows
//! that fill half a vector cost as much to copy, round and count as whole ones, so images that narrow are summed with
//! sixteen channels side by side instead, and so are all whose pixels have their channels together ([`depthwise`]).

mod depthwise;
mod fill;
mod gather;
mod patch;
mod planes;
#[cfg(test)]
mod tests;
mod weight;

pub(super) use gather::gather;
pub(super) use weight::{accumulate, in_parts};

use super::images::Images;
use super::lattice::Lattice;
use crate::gemm::kernel::Full;
use crate::scratch;
use fill::Filling;
use planes::Planes;
use std::ops::Range;

/// Elements of a source that a task computes: they stay in the L2 cache.
const BLOCK: usize = 1 << 13;
/// Elements of a source in a band of rows, and of planes that are filled at a time: they stay in the L1 cache, but are not
/// read so soon that they are still on their way there.
const BAND: usize = 1 << 12;
const FILLED: usize = 1 << 11;
/// Rows that are summed at a time.
const ROWS: usize = 4;
/// What vectors may read or write after the last element of a scratch buffer.
const SLACK: usize = 2 * crate::simd::LANES;

/// How the work is cut: some groups of an image, or some rows of one group.
struct Cut {
    /// Groups of a block.
    groups: usize,
    /// Rows of pixels of a band.
    rows: usize,
}

impl Cut {
    /// For images with `channels` of each group.
    fn new(lattice: &Lattice, groups: usize, channels: usize) -> Self {
        let [height, width] = lattice.grid;
        let line = (channels * width * lattice.step[0] * lattice.step[1]).max(1);
        let even = |total: usize, most: usize| total.div_ceil(total.div_ceil(most.clamp(1, total)));
        let rows = even(height, (BAND / line).next_multiple_of(ROWS).max(ROWS));
        Self { groups: even(groups, BLOCK / (line * height)), rows }
    }

    /// Every block of every band: (groups, rows).
    fn pieces(&self, groups: usize, height: usize) -> Vec<(Range<usize>, Range<usize>)> {
        let blocks = (0..groups).step_by(self.groups).map(|first| first..groups.min(first + self.groups));
        blocks
            .flat_map(|block| {
                (0..height).step_by(self.rows).map(move |y| (block.clone(), y..height.min(y + self.rows)))
            })
            .collect()
    }
}

/// Groups whose planes are filled at a time.
fn filled(planes: &Planes, channels: usize) -> usize {
    (FILLED / (channels * planes.of_channel()).max(1)).max(1)
}

/// Calls `body` with channels of an image, for a band that begins with row `start` of pixels: where they lie, if they are
/// what is computed in and one row after the other, else widened.
fn with_channels<T: Full, R>(
    source: &Images,
    planes: &Planes,
    image: usize,
    channels: Range<usize>,
    start: usize,
    body: impl FnOnce(Filling<T>) -> R,
) -> R {
    let (rows, [height, width]) = (planes.rows(start), source.size);
    let count = channels.len();
    let of_planes = planes.rows_of_planes(start);
    match T::stored(source.view) {
        Some(stored) if source.strides[2..] == [width, 1] && source.strides[1] >= height * width => {
            let first = source.start(image, channels.start, rows.start);
            let loaded = stored.get(first..).unwrap_or(&[]);
            body(Filling { planes, rows: &of_planes, channels: [count, source.strides[1]], loaded })
        }
        _ => {
            let apart = rows.len() * width;
            scratch::with(count * apart, |loaded: &mut [T]| {
                if !loaded.is_empty() {
                    source.load(image, channels, rows, loaded);
                }
                body(Filling { planes, rows: &of_planes, channels: [count, apart], loaded })
            })
        }
    }
}
