//! Windows of planes, sixteen of a row at a time.
//!
//! A window after the other, each with loops of its own, and copies of planes there and back took six to nine times as long:
//! maxima of 3 by 3 at every second pixel of [32, 64, 56, 56] 52 ms and now 6.0, means of 2 by 2 9.6 and 1.6 ms, both on two busy
//! threads of a Zen 5.

use super::Window;
use crate::num::Real;
use crate::simd::{Kernel, LANES, Lanes, Level, Simd};
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

/// The first of the largest pixels of each window, row by row; NaN is larger than everything.
pub(super) struct Largest<'a, T> {
    pub rows: &'a [Window],
    pub columns: &'a [Run],
    pub width: usize,
    pub source: &'a [T],
    pub to: &'a mut [T],
    /// Where the pixels that the values come from lie in the plane, which has at most 2^24 pixels; -1 for no pixels.
    pub places: Option<&'a mut [i64]>,
}

impl<T: Real> Kernel for Largest<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        self.write_all::<S>();
    }
}

impl<T: Real> Largest<'_, T> {
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

    /// Some windows of a run, at most sixteen, of the row whose first window has number `first`.
    #[inline(always)]
    fn write<S: Simd>(&mut self, first: usize, row: &Window, run: &Run, windows: Range<usize>) {
        let (at, to) = (run.start + windows.start * run.stride, first + run.first + windows.start);
        let [values, marks] = self.found::<S>(row, run, at, windows.len());
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
    fn found<S: Simd>(&self, row: &Window, run: &Run, at: usize, windows: usize) -> [T::Lanes<S>; 2] {
        let mut all = [Lanes::splat(T::LEAST), Lanes::splat(T::ZERO)];
        for (down, y) in row.pixels().enumerate() {
            let line = &self.source[y * self.width..][..self.width];
            for across in 0..run.pixels {
                let pixels = every::<S, T>(&line[at + across * run.step..], run.stride, windows);
                let mark = down * row.step * self.width + across * run.step;
                let [best, place] = all;
                all = T::Lanes::<S>::outdone(best, pixels, [place, Lanes::splat(T::of(mark as f64))]);
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

/// The means of windows. The rows of a window are added first, then its columns; so are those of images whose channels lie
/// together.
///
/// Means of 8 by 8, windows side by side, that took one pixel of each window after the other were 1.1 ms of [8, 32, 56, 56] on a
/// Zen 4.
pub(super) struct Means<'a, T> {
    pub rows: &'a [Window],
    pub columns: &'a [Run],
    pub source: &'a [T],
    pub counts: &'a [T],
    /// Room for a row of pixels.
    pub line: &'a mut [T],
    pub to: &'a mut [T],
}

impl<T: Real> Kernel for Means<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { rows, columns, source, counts, line, to } = self;
        let (windows, width) = (Run::windows(columns).max(1), line.len());
        for (row, to) in rows.iter().zip(to.chunks_exact_mut(windows)) {
            line.fill(T::ZERO);
            for y in row.pixels() {
                line.iter_mut().zip(&source[y * width..]).for_each(|(sum, &value)| *sum += value);
            }
            columns.iter().for_each(|run| run.sums::<S, T>(line, &mut to[run.first..][..run.count]));
        }
        to.iter_mut().zip(counts).for_each(|(to, &count)| *to = *to / count);
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
    /// The sum of the pixels of each window.
    #[inline(always)]
    fn sums<S: Simd, T: Real>(&self, line: &[T], to: &mut [T]) {
        if self.stride > 2 {
            for (i, to) in to.iter_mut().enumerate() {
                let pixels = line[self.start + i * self.stride..].iter().step_by(self.step).take(self.pixels);
                *to = pixels.fold(T::ZERO, |sum, &value| sum + value);
            }
            return;
        }
        for (at, to) in (0..self.count).step_by(LANES).zip(to.chunks_mut(LANES)) {
            let mut sums = Lanes::splat(T::ZERO);
            for pixel in 0..self.pixels {
                let first = self.start + at * self.stride + pixel * self.step;
                sums = sums + every::<S, T>(&line[first..], self.stride, to.len());
            }
            T::Lanes::<S>::store_up_to(sums, to);
        }
    }

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
        if self.step == 1 && self.stride > 2 {
            for (i, &share) in shares.iter().enumerate() {
                let pixels = &mut line[self.start + i * self.stride..][..self.pixels];
                pixels.iter_mut().for_each(|to| *to += share);
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
