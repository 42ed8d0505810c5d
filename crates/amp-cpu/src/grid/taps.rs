//! The pixels that take part in a place, and their weights.

use super::{GridMode, GridPadding, Sampling};
use crate::View;
use crate::num::Real;

/// A pixel of an image, its weight in a place, and how that grows with x and y.
#[derive(Clone, Copy)]
pub(super) struct Tap<T> {
    pub pixel: usize,
    pub weight: T,
    pub derivatives: [T; 2],
}

/// A pixel of a line, its weight and the weight's derivative; outside of the line there is none.
#[derive(Clone, Copy)]
struct Part<T> {
    pixel: Option<usize>,
    weight: T,
    derivative: T,
}

/// Finds the pixels around places of images of one size.
#[derive(Clone, Copy)]
pub(super) struct Taps {
    /// Height and width.
    size: [usize; 2],
    how: Sampling,
}

impl Taps {
    /// Of images `[N, C, H, W]`.
    pub fn new(x: &View, how: Sampling) -> Self {
        Self::of_size([x.layout.shape[2], x.layout.shape[3]], how)
    }

    pub fn of_size(size: [usize; 2], how: Sampling) -> Self {
        Self { size, how }
    }

    /// Pixels of an image.
    pub fn pixels(self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Those of the place `[x, y]`, in `room`.
    #[inline(always)]
    pub fn of<'r, T: Real>(self, place: &[T], room: &'r mut [Tap<T>; 16]) -> &'r [Tap<T>] {
        let ([height, width], how) = (self.size, self.how);
        let (columns, count) = Line { size: width, how }.parts(place[0]);
        let (rows, _) = Line { size: height, how }.parts(place[1]);
        let mut found = 0;
        for row in &rows[..count] {
            for column in &columns[..count] {
                if let (Some(y), Some(x)) = (row.pixel, column.pixel) {
                    let derivatives = [column.derivative * row.weight, column.weight * row.derivative];
                    room[found] = Tap { pixel: y * width + x, weight: column.weight * row.weight, derivatives };
                    found += 1;
                }
            }
        }
        &room[..found]
    }

    /// Room for the pixels of a place.
    #[inline(always)]
    pub fn room<T: Real>() -> [Tap<T>; 16] {
        [Tap { pixel: 0, weight: T::ZERO, derivatives: [T::ZERO; 2] }; 16]
    }
}

/// One of the two directions of an image.
#[derive(Clone, Copy)]
struct Line {
    size: usize,
    how: Sampling,
}

impl Line {
    /// The pixels that take part, and how many these are.
    #[inline(always)]
    fn parts<T: Real>(self, place: T) -> ([Part<T>; 4], usize) {
        let (pixel, derivative) = self.pixel(place);
        let none = Part { pixel: None, weight: T::ONE, derivative: T::ZERO };
        match self.how.mode {
            GridMode::Nearest => {
                let pixel = self.number(self.inside(pixel).0.round());
                ([Part { pixel, ..none }, none, none, none], 1)
            }
            GridMode::Bilinear => {
                let (pixel, inside) = self.inside(pixel);
                let (first, derivative) = (pixel.floor(), inside * derivative);
                let weight = pixel - first;
                let near = Part { pixel: self.number(first), weight: T::ONE - weight, derivative: -derivative };
                ([near, Part { pixel: self.number(first + T::ONE), weight, derivative }, none, none], 2)
            }
            GridMode::Bicubic => {
                let first = pixel.floor();
                let t = pixel - first;
                let part = |step: f64, (weight, rise): (T, T)| {
                    let (pixel, _) = self.inside(first + T::of(step));
                    Part { pixel: self.number(pixel), weight, derivative: rise * derivative }
                };
                let turned = |(weight, rise): (T, T)| (weight, -rise);
                let rest = T::ONE - t;
                let last = turned(far(rest + T::ONE));
                ([part(-1.0, far(t + T::ONE)), part(0.0, near(t)), part(1.0, turned(near(rest))), part(2.0, last)], 4)
            }
        }
    }

    /// -1 to 1 as the number of a pixel, and how many of them a unit is. NaN counts as -1 that does not move.
    #[inline(always)]
    fn pixel<T: Real>(self, place: T) -> (T, T) {
        let (size, half) = (T::of(self.size as f64), T::of(0.5));
        let (place, moves) = if place.is_nan() { (-T::ONE, T::ZERO) } else { (place, T::ONE) };
        match self.how.align_corners {
            true => ((place + T::ONE) * ((size - T::ONE) * half), moves * ((size - T::ONE) * half)),
            false => (((place + T::ONE) * size - T::ONE) * half, moves * (size * half)),
        }
    }

    /// The number of a pixel brought into the image, unless zeros lie outside, and its derivative there: 0 at a border.
    #[inline(always)]
    fn inside<T: Real>(self, pixel: T) -> (T, T) {
        let (pixel, derivative) = match self.how.padding {
            GridPadding::Zeros => return (pixel, T::ONE),
            GridPadding::Border => (pixel, T::ONE),
            GridPadding::Reflection => self.reflected(pixel),
        };
        let last = T::of((self.size - 1) as f64);
        match (pixel > T::ZERO, pixel < last) {
            (true, true) => (pixel, derivative),
            (false, true) => (T::ZERO, T::ZERO),
            (_, false) => (last, T::ZERO),
        }
    }

    /// Reflected at the ends: the centres of the first and the last pixel, or their outer edges.
    #[inline(always)]
    fn reflected<T: Real>(self, pixel: T) -> (T, T) {
        let size = T::of(self.size as f64);
        let (low, span) = if self.how.align_corners { (T::ZERO, size - T::ONE) } else { (T::of(-0.5), size) };
        if span == T::ZERO {
            return (T::ZERO, T::ZERO);
        }
        let side = if pixel < low { -T::ONE } else { T::ONE };
        let from = (pixel - low).abs();
        let times = (from / span).floor();
        let rest = from - times * span;
        let odd = times - (times * T::of(0.5)).floor() * T::of(2.0) == T::ONE;
        if odd { (span - rest + low, -side) } else { (rest + low, side) }
    }

    /// A whole number, where there is such a pixel.
    #[inline(always)]
    fn number<T: Real>(self, pixel: T) -> Option<usize> {
        let pixel: f64 = pixel.converted();
        (pixel >= 0.0 && pixel <= (self.size - 1) as f64).then_some(pixel as usize)
    }
}

/// The slope of the cubic of Keys (1981) at 1.
const A: f64 = -0.75;

/// The cubic, and its derivative, up to a distance of 1.
#[inline(always)]
fn near<T: Real>(x: T) -> (T, T) {
    let (cubic, square) = (T::of(A + 2.0), T::of(A + 3.0));
    ((cubic * x - square) * x * x + T::ONE, (T::of(3.0) * cubic * x - T::of(2.0) * square) * x)
}

/// The cubic, and its derivative, at a distance from 1 to 2.
#[inline(always)]
fn far<T: Real>(x: T) -> (T, T) {
    let [cubic, square, line, rest] = [A, 5.0 * A, 8.0 * A, 4.0 * A].map(T::of);
    (((cubic * x - square) * x + line) * x - rest, (T::of(3.0) * cubic * x - T::of(2.0) * square) * x + line)
}
