//! What is done with the channels of the pixels around a place.

use super::taps::{Tap, Taps};
use crate::num::Real;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd};
use std::ops::Range;

/// The pixels of an image mixed at places, place by place.
pub(super) struct Sampled<'a, T> {
    pub taps: Taps,
    pub places: &'a [T],
    pub pixels: &'a [T],
    pub channels: usize,
    pub to: &'a mut [T],
}

impl<T: Real> Kernel for Sampled<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { taps, places, pixels, channels, to } = self;
        let mut room = Taps::room();
        for (place, to) in places.chunks_exact(2).zip(to.chunks_exact_mut(channels)) {
            let taps = taps.of(place, &mut room);
            for (i, to) in to.chunks_mut(LANES).enumerate() {
                let mut sum = T::Lanes::<S>::splat(T::ZERO);
                for tap in taps {
                    let pixel = &pixels[tap.pixel * channels + i * LANES..][..to.len()];
                    sum = T::Lanes::<S>::load_up_to(pixel).mul_add(Lanes::splat(tap.share), sum);
                }
                sum.store_up_to(to);
            }
        }
    }
}

/// Gradients of places given to the pixels they were mixed of, by a block of channels.
pub(super) struct Scattered<'a, T> {
    pub taps: Taps,
    pub places: &'a [T],
    pub slopes: &'a [T],
    pub channels: usize,
    pub block: Range<usize>,
    /// The block of all pixels.
    pub to: &'a mut [T],
}

impl<T: Real> Kernel for Scattered<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { taps, places, slopes, channels, block, to } = self;
        let mut room = Taps::room();
        for (place, slopes) in places.chunks_exact(2).zip(slopes.chunks_exact(channels)) {
            let slopes = &slopes[block.clone()];
            for tap in taps.of(place, &mut room) {
                let pixel = &mut to[tap.pixel * block.len()..][..block.len()];
                for (to, slopes) in pixel.chunks_mut(LANES).zip(slopes.chunks(LANES)) {
                    let slopes = T::Lanes::<S>::load_up_to(slopes);
                    let sum = slopes.mul_add(Lanes::splat(tap.share), Lanes::load_up_to(to));
                    sum.store_up_to(to);
                }
            }
        }
    }
}

/// Gradients of the places themselves.
pub(super) struct Slopes<'a, T> {
    pub taps: Taps,
    pub places: &'a [T],
    pub pixels: &'a [T],
    /// The gradients of what was sampled, place by place.
    pub slopes: &'a [T],
    pub channels: usize,
    pub to: &'a mut [T],
}

impl<T: Real> Kernel for Slopes<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { taps, places, pixels, slopes, channels, to } = self;
        let mut room = Taps::room();
        let places = places.chunks_exact(2).zip(to.as_chunks_mut().0);
        for ((place, to), slopes) in places.zip(slopes.chunks_exact(channels)) {
            *to = slope::<S, T>(taps.of(place, &mut room), pixels, slopes);
        }
    }
}

/// How the sum of `slopes` times the channels of a place grows with x and y.
#[inline(always)]
fn slope<S: Simd, T: Real>(taps: &[Tap<T>], pixels: &[T], slopes: &[T]) -> [T; 2] {
    let mut sums = [T::Lanes::<S>::splat(T::ZERO); 2];
    for (i, channels) in slopes.chunks(LANES).enumerate() {
        let mut rise = [T::Lanes::<S>::splat(T::ZERO); 2];
        for tap in taps {
            let pixel = T::Lanes::<S>::load_up_to(&pixels[tap.pixel * slopes.len() + i * LANES..][..channels.len()]);
            rise[0] = pixel.mul_add(Lanes::splat(tap.slopes[0]), rise[0]);
            rise[1] = pixel.mul_add(Lanes::splat(tap.slopes[1]), rise[1]);
        }
        let channels = T::Lanes::<S>::load_up_to(channels);
        sums = [rise[0].mul_add(channels, sums[0]), rise[1].mul_add(channels, sums[1])];
    }
    // A fold was compiled on its own, without the level's instructions.
    for width in [8, 4, 2, 1] {
        sums = [sums[0] + sums[0].swapped(width), sums[1] + sums[1].swapped(width)];
    }
    [sums[0].array()[0], sums[1].array()[0]]
}
