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
                    sum = T::Lanes::<S>::load_up_to(pixel).mul_add(Lanes::splat(tap.weight), sum);
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
    pub grad: &'a [T],
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
        let Self { taps, places, grad, channels, block, to } = self;
        let mut room = Taps::room();
        for (place, grad) in places.chunks_exact(2).zip(grad.chunks_exact(channels)) {
            let grad = &grad[block.clone()];
            for tap in taps.of(place, &mut room) {
                let pixel = &mut to[tap.pixel * block.len()..][..block.len()];
                for (to, grad) in pixel.chunks_mut(LANES).zip(grad.chunks(LANES)) {
                    let grad = T::Lanes::<S>::load_up_to(grad);
                    let sum = grad.mul_add(Lanes::splat(tap.weight), Lanes::load_up_to(to));
                    sum.store_up_to(to);
                }
            }
        }
    }
}

/// Gradients of the places themselves.
pub(super) struct GridGrad<'a, T> {
    pub taps: Taps,
    pub places: &'a [T],
    pub pixels: &'a [T],
    /// The gradients of what was sampled, place by place.
    pub grad: &'a [T],
    pub channels: usize,
    pub to: &'a mut [T],
}

impl<T: Real> Kernel for GridGrad<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { taps, places, pixels, grad, channels, to } = self;
        let mut room = Taps::room();
        let places = places.chunks_exact(2).zip(to.as_chunks_mut().0);
        for ((place, to), grad) in places.zip(grad.chunks_exact(channels)) {
            *to = place_grad::<S, T>(taps.of(place, &mut room), pixels, grad);
        }
    }
}

/// How the sum of `grad` times the channels of a place grows with x and y.
#[inline(always)]
fn place_grad<S: Simd, T: Real>(taps: &[Tap<T>], pixels: &[T], grad: &[T]) -> [T; 2] {
    let mut sums = [T::Lanes::<S>::splat(T::ZERO); 2];
    for (i, channels) in grad.chunks(LANES).enumerate() {
        let mut derivatives = [T::Lanes::<S>::splat(T::ZERO); 2];
        for tap in taps {
            let pixel = T::Lanes::<S>::load_up_to(&pixels[tap.pixel * grad.len() + i * LANES..][..channels.len()]);
            derivatives[0] = pixel.mul_add(Lanes::splat(tap.derivatives[0]), derivatives[0]);
            derivatives[1] = pixel.mul_add(Lanes::splat(tap.derivatives[1]), derivatives[1]);
        }
        let channels = T::Lanes::<S>::load_up_to(channels);
        sums = [derivatives[0].mul_add(channels, sums[0]), derivatives[1].mul_add(channels, sums[1])];
    }
    // A fold was compiled on its own, without the level's instructions.
    for width in [8, 4, 2, 1] {
        sums = [sums[0] + sums[0].swapped(width), sums[1] + sums[1].swapped(width)];
    }
    [sums[0].array()[0], sums[1].array()[0]]
}
