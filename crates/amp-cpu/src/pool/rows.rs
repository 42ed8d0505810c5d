//! Windows of planes, sixteen of a row at a time.
//!
//! A window after the other, each with loops of its own, and copies of planes there and back took six to nine times as long:
//! maxima of 3 by 3 at every second pixel of [32, 64, 56, 56] 52 ms and now 6.0, means of 2 by 2 9.6 and 1.6 ms, both on two busy
//! threads of a Zen 5.

use super::Window;
use crate::num::Real;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd};
use std::marker::PhantomData;
use std::ops::Range;

/// Windows side by side at equal distances, with as many pixels each.
pub(super) struct Run {
    /// Number of the first window.
    first: usize,
    count: usize,
    /// The first window's first pixel.
    start: usize,
    /// Distance between windows.
    stride: usize,
    /// Distance between the pixels of a window.
    step: usize,
    pixels: usize,
}

impl Run {
    /// All windows of a row.
    pub fn all(windows: &[Window]) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for (first, window) in windows.iter().enumerate() {
            if !runs.last_mut().is_some_and(|run| run.take(window)) {
                let &Window { start, step, .. } = window;
                runs.push(Self { first, count: 1, start, stride: 1, step, pixels: window.pixels().len() });
            }
        }
        runs
    }

    /// Takes a window if it is the next one.
    fn take(&mut self, next: &Window) -> bool {
        let Some(distance) = next.start.checked_sub(self.start) else { return false };
        let stride = if self.count == 1 { distance } else { self.stride };
        if next.pixels().len() != self.pixels || distance != self.count * stride {
            return false;
        }
        (self.stride, self.count) = (stride, self.count + 1);
        true
    }

    /// How many windows these of a row are together.
    fn windows(all: &[Self]) -> usize {
        all.last().map_or(0, |run| run.first + run.count)
    }
}

/// What is made of the pixels of windows: of each lane a value, and a mark of the pixel it comes from.
pub(super) trait Join<T: Real> {
    /// The value of no pixels.
    const START: T;

    /// With one pixel more of each window, which has `mark`.
    fn join<S: Simd>(sofar: [T::Lanes<S>; 2], pixel: T::Lanes<S>, mark: T) -> [T::Lanes<S>; 2];
}

/// The sum.
pub(super) struct Sum;

impl<T: Real> Join<T> for Sum {
    const START: T = T::ZERO;

    #[inline(always)]
    fn join<S: Simd>([sum, mark]: [T::Lanes<S>; 2], pixel: T::Lanes<S>, _: T) -> [T::Lanes<S>; 2] {
        [sum + pixel, mark]
    }
}

/// The first of the largest; NaN is larger than everything.
pub(super) struct Largest;

impl<T: Real> Join<T> for Largest {
    const START: T = T::LEAST;

    #[inline(always)]
    fn join<S: Simd>([best, place]: [T::Lanes<S>; 2], pixel: T::Lanes<S>, mark: T) -> [T::Lanes<S>; 2] {
        best.outdone(pixel, [place, Lanes::splat(mark)])
    }
}

/// A plane and windows over it, whose pixels are joined row by row.
pub(super) struct Joined<'a, T, J> {
    pub rows: &'a [Window],
    pub columns: &'a [Run],
    pub width: usize,
    pub source: &'a [T],
    pub to: &'a mut [T],
    /// Where the pixels that the values come from lie in the plane, which has at most 2^24 pixels; -1 for no pixels.
    pub places: Option<&'a mut [i64]>,
    pub join: PhantomData<J>,
}

impl<T: Real, J: Join<T>> Kernel for Joined<'_, T, J> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        self.write_all::<S>();
    }
}

impl<T: Real, J: Join<T>> Joined<'_, T, J> {
    #[inline(always)]
    fn write_all<S: Simd>(&mut self) {
        let windows = Run::windows(self.columns);
        for (i, row) in self.rows.iter().enumerate() {
            for run in self.columns {
                let whole = run.count / LANES * LANES;
                for at in (0..whole).step_by(LANES) {
                    self.write::<S>(i * windows, row, run, at..at + LANES);
                }
                if whole < run.count {
                    self.write::<S>(i * windows, row, run, whole..run.count);
                }
            }
        }
    }

    /// Joins the pixels of some windows of a run, at most sixteen, of the row whose first window has number `first`.
    #[inline(always)]
    fn write<S: Simd>(&mut self, first: usize, row: &Window, run: &Run, windows: Range<usize>) {
        let (at, to) = (run.start + windows.start * run.stride, first + run.first + windows.start);
        let [values, marks] = self.joined::<S>(row, run, at, windows.len());
        values.store_up_to(&mut self.to[to..][..windows.len()]);
        if let Some(places) = &mut self.places {
            let places = &mut places[to..][..windows.len()];
            if row.start >= row.end || run.pixels == 0 {
                return places.fill(-1);
            }
            let corner = row.start * self.width + at;
            for (i, (place, mark)) in places.iter_mut().zip(marks.array()).enumerate() {
                let mark: f64 = mark.converted();
                *place = (corner + i * run.stride) as i64 + mark as i64;
            }
        }
    }

    #[inline(always)]
    fn joined<S: Simd>(&self, row: &Window, run: &Run, at: usize, windows: usize) -> [T::Lanes<S>; 2] {
        let mut all = [Lanes::splat(J::START), Lanes::splat(T::ZERO)];
        for (down, y) in row.pixels().enumerate() {
            let line = &self.source[y * self.width..][..self.width];
            for across in 0..run.pixels {
                let pixels = every::<S, T>(&line[at + across * run.step..], run.stride, windows);
                let mark = down * row.step * self.width + across * run.step;
                all = J::join(all, pixels, T::of(mark as f64));
            }
        }
        all
    }
}

/// The first of each `stride` pixels, `count` in all; the other lanes get 0.
#[inline(always)]
fn every<S: Simd, T: Real>(line: &[T], stride: usize, count: usize) -> T::Lanes<S> {
    match stride {
        1 => Lanes::load_up_to(&line[..count]),
        2 => {
            let pixels = &line[..2 * count - 1];
            let (low, high) = pixels.split_at(pixels.len().min(LANES));
            T::Lanes::<S>::load_up_to(low).evens(Lanes::load_up_to(high))
        }
        _ => {
            let mut all = [T::ZERO; LANES];
            all[..count].iter_mut().enumerate().for_each(|(i, to)| *to = line[i * stride]);
            Lanes::load(&all)
        }
    }
}

/// The means of windows from their sums and numbers of pixels.
pub(super) struct Quotients<'a, T> {
    pub sums: Joined<'a, T, Sum>,
    pub counts: &'a [T],
}

impl<T: Real> Kernel for Quotients<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        self.sums.write_all::<S>();
        self.sums.to.iter_mut().zip(self.counts).for_each(|(to, &count)| *to = *to / count);
    }
}

/// The gradient of a plane from those of its windows' means.
pub(super) struct Shares<'a, T> {
    pub rows: &'a [Window],
    pub columns: &'a [Run],
    pub width: usize,
    pub grad: &'a [T],
    pub counts: &'a [T],
    /// Room for as much as there is of `grad`.
    pub shares: &'a mut [T],
    pub to: &'a mut [T],
}

impl<T: Real> Kernel for Shares<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { rows, columns, width, grad, counts, shares, to } = self;
        for (share, (&g, &count)) in shares.iter_mut().zip(grad.iter().zip(counts)) {
            *share = g / count;
        }
        to.fill(T::ZERO);
        for (row, shares) in rows.iter().zip(shares.chunks_exact(Run::windows(columns).max(1))) {
            for y in row.pixels() {
                let line = &mut to[y * width..][..width];
                columns.iter().for_each(|run| run.spread(&shares[run.first..][..run.count], line));
            }
        }
    }
}

impl Run {
    /// Adds the share of each window to its pixels, those of earlier windows first.
    #[inline(always)]
    fn spread<T: Real>(&self, shares: &[T], line: &mut [T]) {
        if [self.pixels, self.stride, self.step] == [2, 2, 1] {
            let pairs = line[self.start..].as_chunks_mut().0;
            for ([left, right], &share) in pairs.iter_mut().zip(shares) {
                *left += share;
                *right += share;
            }
            return;
        }
        for pixel in (0..self.pixels).rev() {
            let line = &mut line[self.start + pixel * self.step..];
            match self.stride {
                1 => line.iter_mut().zip(shares).for_each(|(to, &share)| *to += share),
                stride => shares.iter().enumerate().for_each(|(i, &share)| line[i * stride] += share),
            }
        }
    }
}
