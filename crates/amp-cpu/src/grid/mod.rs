//! Images sampled at the places of a grid, and their gradients; arithmetic in F32 (F64 for F64).
//!
//! The channels of a pixel lie together and are lanes: a place is found once for all of them, and gradients are added to whole
//! pixels. Images that lie otherwise are copied so.

mod lanes;
mod taps;
#[cfg(test)]
mod tests;

use crate::line::Span;
use crate::lockstep::Elements;
use crate::num::{Num, Real, in_real};
use crate::output::Output;
use crate::simd::dispatch;
use crate::split::for_chunks;
use crate::transpose::transpose;
use crate::{DType, MemoryOrder, Storage, View, parallel, scratch};
use lanes::{GridGrad, Sampled, Scattered};
use std::ops::Range;
use taps::Taps;

/// How the pixels around a place are mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridMode {
    /// The four around it, by their distance.
    #[default]
    Bilinear,
    /// The nearest one; halfway, that of the even number.
    Nearest,
    /// The sixteen around it, by a cubic of slope -0.75.
    Bicubic,
}

/// What is found outside of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridPadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The pixel at the border.
    Border,
    /// The image, reflected at its borders as often as it takes.
    Reflection,
}

/// How images are sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// How pixels are mixed.
    pub mode: GridMode,
    /// What lies outside of an image.
    pub padding: GridPadding,
    /// Whether -1 and 1 are the centres of the corner pixels, not their outer edges.
    pub align_corners: bool,
}

/// Places of one piece of work.
const PLACES: usize = 64;
/// Channels of one piece of work.
const CHANNELS: usize = 64;

/// Images `[N, C, H, W]` at the places `[N, h, w, 2]` of a grid as `[N, C, h, w]`, PyTorch's `grid_sample`; NaN counts as -1.
///
/// Sums in F32 (F64 for F64 operands), rounded once; `out` says to what, and in which order the result lies.
pub fn grid_sample(x: &View, grid: &View, how: Sampling, (out, order): (DType, MemoryOrder)) -> Storage {
    let (channels, places) = (x.layout.shape[1], Places::new(grid));
    let mut result = Storage::unwritten(out, places.images * channels * places.count);
    if result.is_empty() {
        return result;
    }
    in_real!(x.logical, T => {
        let (mut room, taps, output) = (None, Taps::new(x, how), Output::new(&mut result));
        let pixels = pixels::<T>(x, &mut room);
        places.for_each_block::<T>(2 * channels, |image, block, places_of_block, room| {
            let (to, turned) = room.split_at_mut(room.len() / 2);
            let pixels = of_image(pixels, image, taps.pixels() * channels);
            dispatch(Sampled { taps, places: places_of_block, pixels, channels, to });
            let target = Target { output: &output, order, shape: [channels, places.count], image };
            // SAFETY: each task has its own places.
            unsafe { target.write(block.start, 0..channels, to, turned) };
        });
    });
    result
}

/// Gradient of [`grid_sample`] with respect to images of `input` `[H, W]`.
///
/// Sums in F32 (F64 for F64 operands), rounded once; `out` says to what, and in which order the result lies.
pub fn grid_sample_grad(
    grad: &View,
    grid: &View,
    input: [usize; 2],
    how: Sampling,
    (out, order): (DType, MemoryOrder),
) -> Storage {
    let (channels, places) = (grad.layout.shape[1], Places::new(grid));
    let (size, blocks) = (input[0] * input[1], channels.div_ceil(CHANNELS));
    let mut result = Storage::unwritten(out, places.images * channels * size);
    in_real!(grad.logical, T => {
        let (mut room, taps, output) = (None, Taps::of_size(input, how), Output::new(&mut result));
        let grad = pixels::<T>(grad, &mut room);
        let work = places.images * channels * (places.count + size);
        parallel::for_each(places.images * blocks, work, |task| {
            let (image, first) = (task / blocks, task % blocks * CHANNELS);
            let block = first..channels.min(first + CHANNELS);
            scratch::with(2 * places.count + (size + PLACES) * block.len(), |room: &mut [T]| {
                let (places_room, room) = room.split_at_mut(2 * places.count);
                let (to, turned) = room.split_at_mut(size * block.len());
                let grad = of_image(grad, image, places.count * channels);
                let places = places.read(image, 0..places.count, places_room);
                to.fill(T::ZERO);
                dispatch(Scattered { taps, places, grad, channels, block: block.clone(), to });
                let target = Target { output: &output, order, shape: [channels, size], image };
                for (i, to) in to.chunks(PLACES * block.len()).enumerate() {
                    // SAFETY: each task has its own channels of an image.
                    unsafe { target.write(i * PLACES, block.clone(), to, turned) };
                }
            });
        });
    });
    result
}

/// Gradient of [`grid_sample`] with respect to the grid; 0 by the nearest pixel.
///
/// Sums in F32 (F64 for F64 operands), rounded once to `out`.
pub fn grid_sample_grad_grid(x: &View, grid: &View, grad: &View, how: Sampling, out: DType) -> Storage {
    let (channels, places) = (x.layout.shape[1], Places::new(grid));
    if channels == 0 || how.mode == GridMode::Nearest {
        return Storage::zeros(out, grid.layout.count());
    }
    let mut result = Storage::unwritten(out, grid.layout.count());
    in_real!(x.logical, T => {
        let (mut rooms, taps, output) = ([None, None], Taps::new(x, how), Output::new(&mut result));
        let [x_room, grad_room] = &mut rooms;
        let (pixels, grad) = (pixels::<T>(x, x_room), pixels::<T>(grad, grad_room));
        places.for_each_block::<T>(2, |image, block, places_of_block, to| {
            let first = image * places.count + block.start;
            let pixels = of_image(pixels, image, taps.pixels() * channels);
            let grad = &grad[first * channels..][..block.len() * channels];
            dispatch(GridGrad { taps, places: places_of_block, pixels, grad, channels, to });
            // SAFETY: each task has its own places.
            unsafe { output.store(2 * first, 1, to) };
        });
    });
    result
}

/// The elements of one image.
fn of_image<T>(all: &[T], image: usize, len: usize) -> &[T] {
    &all[image * len..][..len]
}

/// All elements in the order `[N, H, W, C]`, where they lie if nothing is to be converted.
fn pixels<'a, T: Real>(view: &View<'a>, room: &'a mut Option<Storage>) -> &'a [T] {
    let span = Span::new(view, [0, 2, 3, 1]);
    if let Some(Elements::Wide(all)) = span.in_place(0, span.len()) {
        return all;
    }
    let [_, channels, height, width] = *view.layout.shape else { unreachable!("images have four dimensions") };
    let (size, planes) = (height * width, Span::row_major(view));
    let copy = room.insert(Storage::unwritten(T::DTYPE, planes.len()));
    for_chunks(copy, channels * size, &|image, mut piece| {
        let to = T::same_mut(&mut piece).expect("made of this type");
        scratch::with(to.len(), |room: &mut [T]| {
            transpose(planes.read(image * to.len(), to.len(), room), size, [channels, size], to, channels);
        });
    });
    T::same(copy.as_slice()).expect("made of this type")
}

/// The places of all images.
struct Places<'a> {
    span: Span<'a>,
    images: usize,
    /// Of each image.
    count: usize,
}

impl<'a> Places<'a> {
    fn new(grid: &View<'a>) -> Self {
        let [images, height, width, _] = *grid.layout.shape else { unreachable!("a grid has four dimensions") };
        Self { span: Span::row_major(grid), images, count: height * width }
    }

    /// Some places of an image, each x and y.
    fn read<'s, T: Real>(&'s self, image: usize, range: Range<usize>, room: &'s mut [T]) -> &'s [T] {
        self.span.read(2 * (image * self.count + range.start), 2 * range.len(), room)
    }

    /// Some places of an image at a time: its number, theirs, they and room for `each` elements for each of them.
    fn for_each_block<T: Real>(&self, each: usize, body: impl Fn(usize, Range<usize>, &[T], &mut [T]) + Sync + Send) {
        let blocks = self.count.div_ceil(PLACES);
        parallel::for_each(self.images * blocks, self.images * self.count * (each + 16), |task| {
            let (image, first) = (task / blocks, task % blocks * PLACES);
            let block = first..self.count.min(first + PLACES);
            scratch::with((2 + each) * block.len(), |room: &mut [T]| {
                let (places, room) = room.split_at_mut(2 * block.len());
                body(image, block.clone(), self.read(image, block.clone(), places), room);
            });
        });
    }
}

/// Where pixels of an image of `shape` (channels, pixels) are written.
struct Target<'a> {
    output: &'a Output<'a>,
    order: MemoryOrder,
    shape: [usize; 2],
    image: usize,
}

impl Target<'_> {
    /// Writes some channels of the pixels from `first` on; `turned` is room for as many elements.
    ///
    /// # Safety
    /// No other thread may touch these elements meanwhile.
    unsafe fn write<T: Real>(&self, first: usize, channels: Range<usize>, pixels: &[T], turned: &mut [T]) {
        let ([all, size], width) = (self.shape, channels.len());
        let count = pixels.len() / width;
        if self.order == MemoryOrder::ChannelsLast {
            for (i, pixel) in pixels.chunks_exact(width).enumerate() {
                // SAFETY: the caller's duty.
                unsafe { self.output.store((self.image * size + first + i) * all + channels.start, 1, pixel) };
            }
            return;
        }
        transpose(pixels, width, [count, width], turned, count);
        for (channel, line) in channels.zip(turned.chunks_exact(count)) {
            // SAFETY: as above.
            unsafe { self.output.store((self.image * all + channel) * size + first, 1, line) };
        }
    }
}
