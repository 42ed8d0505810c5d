//! Depthwise convolutions with channels side by side: a vector is the same pixel of sixteen of them.
//!
//! Images whose pixels have their channels together lie that way already: rows are widened into a frame of zeros, summed, and
//! rounded where they belong. On a core of Zen 5, 3 x 3 over 64 channels of 32 by 32 BF16 takes a quarter of the time that
//! turning them into planes took, forward and backward, and 256 channels of 8 by 8 a fifth. Filling and storing row by row,
//! so that memory is busy while others are summed, was no faster.
//!
//! Others are turned where that pays: rows shorter than a vector leave lanes unused where neighbouring pixels are summed side
//! by side. 3 x 3 over 256 channels of 8 by 8 that are turned takes 0.55 of the time that it takes with pixels side by side,
//! channels of 4 by 4 take 0.4 and every second pixel of 8 by 8 a quarter.

mod gather;
mod weight;

pub(super) use gather::gather;
pub(super) use weight::kernels;

use super::super::images::Images;
use super::super::lattice::{Lattice, Phase, Tap};
use crate::gemm::kernel::Full;
use crate::load::{prefetch_range, prefetches_lines};
use crate::num::Real;
use crate::scratch;
use crate::simd::{LANES, Lanes, Level, Simd};
use crate::transpose::transpose;
use std::ops::Range;

/// Most pixels of a frame that is turned: with what is summed, sixteen channels of them stay in the L2 cache.
const PIXELS: usize = 1 << 10;
/// Elements of a frame that is not, which stay there too.
const BAND: usize = 1 << 16;
/// Most channels side by side: a few rows of them stay in the L1 cache, and pixels do not push each other out of it.
const CHANNELS: usize = 256;
/// Pixels that are summed at a time.
const NEXT: usize = 4;
/// Taps of a kernel that are summed at a time.
const TAPS: usize = 3;

/// What a band of rows of pixels reads of an image and of the zeros around it, `[rows][columns][lanes]`.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Height and width of the image.
    size: [usize; 2],
    /// Row and column that the first pixel's lowest taps read.
    first: [isize; 2],
    /// Rows and columns that one pixel reads.
    reach: [usize; 2],
    /// Columns in all.
    columns: usize,
    step: [usize; 2],
    /// Elements of a pixel.
    pub lanes: usize,
    /// Rows of pixels of a band.
    rows: usize,
    /// Whether the channels of the image are far apart.
    turned: bool,
}

impl Frame {
    /// The frame of images of many groups of one channel, if their channels lie `together` or they are narrow enough to be
    /// turned; `None` for others.
    pub(super) fn new(
        lattice: &Lattice,
        size: [usize; 2],
        [groups, channels]: [usize; 2],
        together: bool,
    ) -> Option<Self> {
        let taps = || lattice.phases.iter().flat_map(|phase| &phase.taps);
        let (grid, step) = (lattice.grid, lattice.step);
        let along = |of: fn(&Tap) -> isize| {
            let (first, last) = (taps().map(of).min().unwrap_or(0), taps().map(of).max().unwrap_or(0));
            (first, (last - first) as usize + 1)
        };
        let ((top, down), (left, across)) = (along(|tap| tap.y), along(|tap| tap.x));
        let columns = grid[1].saturating_sub(1) * step[1] + across;
        let fitting = BAND / columns.saturating_mul(down) / LANES * LANES;
        let lanes = if together { even(groups, fitting.min(CHANNELS)).next_multiple_of(LANES) } else { LANES };
        let rows = if together { (BAND / (columns * lanes)).saturating_sub(down) / step[0] + 1 } else { grid[0] };
        let rows = even(grid[0], rows);
        let frame =
            Self { size, first: [top, left], reach: [down, across], columns, step, lanes, rows, turned: !together };
        let pixels = frame.lines(rows).saturating_mul(columns).max(lattice.size[0] * lattice.size[1]);
        let narrow = 3 * grid[1] <= 2 * LANES && pixels <= PIXELS;
        let pays = if together { fitting > 0 } else { narrow };
        (pays && channels == 1 && groups >= LANES / 2).then_some(frame)
    }

    /// Rows that so many rows of pixels read.
    fn lines(&self, rows: usize) -> usize {
        rows.saturating_sub(1) * self.step[0] + self.reach[0]
    }

    /// Elements of the frame of a band.
    fn len(&self) -> usize {
        self.lines(self.rows) * self.columns * self.lanes
    }

    /// The bands of so many rows of pixels.
    fn bands(&self, rows: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let step = self.rows.max(1);
        (0..rows).step_by(step).map(move |first| first..rows.min(first + step))
    }

    /// Where the first pixel reads with a tap.
    fn offset(&self, tap: &Tap) -> usize {
        let at = |i: usize, tap: isize| (tap - self.first[i]) as usize;
        (at(0, tap.y) * self.columns + at(1, tap.x)) * self.lanes
    }

    /// [`Self::offset`] of each tap of a phase.
    fn offsets(&self, phase: &Phase) -> Vec<usize> {
        phase.taps.iter().map(|tap| self.offset(tap)).collect()
    }

    /// Elements from pixel to pixel, downwards and to the right.
    fn steps(&self) -> [usize; 2] {
        [self.step[0] * self.columns * self.lanes, self.step[1] * self.lanes]
    }

    /// Fills the frame of a band with channels of an image.
    fn fill<T: Full>(
        &self,
        source: &Images,
        image: usize,
        channels: Range<usize>,
        band: &Range<usize>,
        frame: &mut [T],
    ) {
        let (first, frame) = (band.start, &mut frame[..self.lines(band.len()) * self.columns * self.lanes]);
        if !self.turned {
            let load = |y: usize, x: Range<usize>, to: &mut [T]| load(source, [image, y], &channels, x, self.lanes, to);
            return self.fill_lines(first, frame, load);
        }
        scratch::with(self.size[0] * self.size[1] * LANES, |pixels: &mut [T]| {
            turn(source, image, channels, pixels);
            self.fill_lines(first, frame, |y, x, to| {
                to.copy_from_slice(&pixels[(y * self.size[1] + x.start) * LANES..][..to.len()]);
            });
        });
    }

    /// Fills the frame of the band that begins with row `start`; `row` gives columns of a row of the image.
    fn fill_lines<T: Real>(&self, start: usize, frame: &mut [T], row: impl Fn(usize, Range<usize>, &mut [T])) {
        let [height, width] = self.size;
        let inside = |first: isize, size: usize| first.clamp(0, size as isize) as usize;
        let x = inside(self.first[1], width)..inside(self.first[1] + self.columns as isize, width);
        let before = (x.start as isize - self.first[1]) as usize * self.lanes;
        for (i, line) in frame.chunks_exact_mut((self.columns * self.lanes).max(1)).enumerate() {
            let y = (start * self.step[0] + i) as isize + self.first[0];
            if x.is_empty() || y < 0 || y >= height as isize {
                line.fill(T::ZERO);
                continue;
            }
            let (zeros, line) = line.split_at_mut(before);
            let (line, rest) = line.split_at_mut(x.len() * self.lanes);
            zeros.fill(T::ZERO);
            rest.fill(T::ZERO);
            row(y as usize, x.clone(), line);
        }
    }
}

/// The size of parts that are about as large as each other, at most `most`.
fn even(total: usize, most: usize) -> usize {
    total.div_ceil(total.div_ceil(most.max(1)).max(1))
}

/// Loads columns of a row of images that have the channels of a pixel together as `[columns][lanes]`, zeros after the channels.
fn load<T: Full>(
    source: &Images,
    [image, y]: [usize; 2],
    channels: &Range<usize>,
    x: Range<usize>,
    lanes: usize,
    to: &mut [T],
) {
    let (next, count) = (source.strides[3], channels.len());
    let start = source.start(image, channels.start, y) + x.start * next;
    if count == lanes && next == lanes {
        // Rows of a page of memory each would all be waited for anew.
        if prefetches_lines() {
            prefetch_range(source.view.data, start + to.len(), to.len());
        }
        return T::load(source.view, start, 1, to);
    }
    for (i, pixel) in to.chunks_exact_mut(lanes).enumerate() {
        let (pixel, rest) = pixel.split_at_mut(count);
        T::load(source.view, start + i * next, 1, pixel);
        rest.fill(T::ZERO);
    }
}

/// Loads up to sixteen channels of an image as `[pixels][LANES]`.
fn turn<T: Full>(source: &Images, image: usize, channels: Range<usize>, turned: &mut [T]) {
    let (count, pixels) = (channels.len(), source.size[0] * source.size[1]);
    if pixels == 0 {
        return;
    }
    scratch::with(count * pixels, |loaded: &mut [T]| {
        source.load(image, channels.clone(), 0..source.size[0], loaded);
        source.prefetch_after(image, channels);
        transpose(loaded, pixels, [count, pixels], turned, LANES);
    });
}

/// Groups of up to `lanes` channels.
pub(super) fn blocks(channels: usize, lanes: usize) -> impl Iterator<Item = Range<usize>> {
    (0..channels).step_by(lanes).map(move |first| first..channels.min(first + lanes))
}

/// How many neighbouring taps share what they read, if taps are rows of so many for pixels that are `step` elements apart; else 1.
///
/// Of more, sums, kernels and what is read would not all fit in registers. AVX2 has half as many, of half the size: sharing took it as
/// long for 3 x 3 and 1.3 times as long for 7 x 7.
fn neighbours<S: Simd>(taps: &[usize], [step, lanes]: [usize; 2]) -> usize {
    let in_row = |row: &[usize]| row.windows(2).all(|pair| pair[0] + lanes == pair[1]);
    let are_rows = |count: &usize| taps.len().is_multiple_of(*count) && taps.chunks(*count).all(in_row);
    let shares = S::LEVEL >= Level::Avx512 && step == lanes;
    [7, 5, TAPS].into_iter().filter(|_| shares).find(are_rows).unwrap_or(1)
}

/// The next of `K` neighbours in place of the first of them.
#[inline(always)]
fn moved<V: Copy, const K: usize>(read: [V; K], next: V) -> [V; K] {
    std::array::from_fn(|i| if i + 1 < K { read[i + 1] } else { next })
}

/// # Safety
/// A vector must be readable.
#[inline(always)]
unsafe fn vector<T: Real, S: Simd>(from: *const T) -> T::Lanes<S> {
    // SAFETY: the caller's duty.
    Lanes::load(unsafe { &*from.cast() })
}
