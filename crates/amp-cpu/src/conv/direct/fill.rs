//! Copies rows of images into planes.

use super::planes::{Planes, Rows};
use crate::num::Real;
use crate::simd::{LANES, Lanes, Simd};
use std::ops::Range;

/// Channels of a band, as they were loaded.
#[derive(Clone, Copy)]
pub(super) struct Filling<'a, T> {
    pub planes: &'a Planes,
    /// Of each plane.
    pub rows: &'a [Rows],
    /// Number of channels, and the distance between them.
    pub channels: [usize; 2],
    pub loaded: &'a [T],
}

impl<T: Real> Filling<'_, T> {
    /// The same for some of the channels.
    #[inline(always)]
    pub(super) fn part(&self, channels: Range<usize>) -> Self {
        let apart = self.channels[1];
        let loaded = self.loaded.get(channels.start * apart..).unwrap_or(&[]);
        Self { channels: [channels.len(), apart], loaded, ..*self }
    }

    /// Fills the planes of channel after channel.
    ///
    /// From the front to the back, in whole vectors: what one writes too much the next overwrites, the last in `out`'s slack.
    #[inline(always)]
    pub(super) fn fill<S: Simd>(&self, out: &mut [T]) {
        let Self { planes, rows, channels: [channels, apart], loaded } = *self;
        assert!(out.len() >= channels * planes.of_channel() + LANES);
        let mut writer = Writer { at: out.as_mut_ptr(), line: planes.line, step: planes.step[1] };
        for channel in 0..channels {
            let loaded = loaded.get(channel * apart..).unwrap_or(&[]);
            for Rows { lines, first, count } in rows {
                assert!(lines.start <= lines.end && lines.end <= planes.lines);
                // SAFETY: the lead and `planes.lines` lines are a plane; those of all channels and a vector fit `out`.
                unsafe {
                    writer.zeros::<S>(planes.lead + lines.start * planes.line);
                    if !lines.is_empty() {
                        writer.rows::<S>(&loaded[*first..], [lines.len(), *count], planes.step[0] * planes.size[1]);
                    }
                    writer.zeros::<S>((planes.lines - lines.end) * planes.line);
                }
            }
        }
    }
}

/// Writes vectors from the front to the back.
struct Writer<T> {
    at: *mut T,
    /// Length of a line.
    line: usize,
    /// Every how many elements of a row one is taken.
    step: usize,
}

impl<T: Real> Writer<T> {
    /// Writes `len` zeros.
    ///
    /// # Safety
    /// `len` elements and a vector must be writable.
    #[inline(always)]
    unsafe fn zeros<S: Simd>(&mut self, len: usize) {
        // SAFETY: the caller's duty; all but the first vector begin before `len`.
        unsafe {
            self.put::<S>(0, Lanes::splat(T::ZERO));
            for i in (LANES..len).step_by(LANES) {
                self.put::<S>(i, Lanes::splat(T::ZERO));
            }
        }
        self.at = self.at.wrapping_add(len);
    }

    /// Writes lines: every `step`-th element of a row, then zeros. The rows are `count` long and `next` apart.
    ///
    /// # Safety
    /// The lines and a vector must be writable.
    #[inline(always)]
    unsafe fn rows<S: Simd>(&mut self, rows: &[T], [lines, count]: [usize; 2], next: usize) {
        assert!(rows.len() >= (lines - 1) * next + count && (self.step > 1 || count <= self.line));
        for i in 0..lines {
            // SAFETY: asserted above; lines are the caller's duty.
            unsafe {
                let row = std::slice::from_raw_parts(rows.as_ptr().add(i * next), count);
                if self.step == 1 { self.copy::<S>(row) } else { self.pick::<S>(row) }
            }
            self.at = self.at.wrapping_add(self.line);
        }
    }

    /// # Safety
    /// A line and a vector must be writable.
    #[inline(always)]
    unsafe fn copy<S: Simd>(&mut self, row: &[T]) {
        let (vectors, rest) = row.as_chunks::<LANES>();
        let mut i = 0;
        // SAFETY: every vector begins before the end of the line, in which the row fits.
        unsafe {
            for vector in vectors {
                self.put::<S>(i, Lanes::load(vector));
                i += LANES;
            }
            while i < self.line {
                self.put::<S>(i, if i < row.len() { Lanes::load_part(rest, T::ZERO) } else { Lanes::splat(T::ZERO) });
                i += LANES;
            }
        }
    }

    /// # Safety
    /// A line and a vector must be writable.
    #[inline(always)]
    unsafe fn pick<S: Simd>(&mut self, row: &[T]) {
        for i in (0..self.line).step_by(LANES) {
            // SAFETY: the vector begins before the end of the line.
            unsafe { self.put::<S>(i, picked::<T, S>(row.get(i * self.step..).unwrap_or(&[]), self.step)) };
        }
    }

    /// # Safety
    /// The vector must be writable.
    #[inline(always)]
    unsafe fn put<S: Simd>(&mut self, i: usize, vector: T::Lanes<S>) {
        // SAFETY: the caller's duty.
        vector.store(unsafe { &mut *self.at.add(i).cast() });
    }
}

/// Every `step`-th of the first elements, then zeros.
#[inline(always)]
fn picked<T: Real, S: Simd>(row: &[T], step: usize) -> T::Lanes<S> {
    if step == 2 {
        let (low, high) = row.split_at(row.len().min(LANES));
        return first::<T, S>(low).evens(first::<T, S>(&high[..high.len().min(LANES)]));
    }
    let mut lanes = [T::ZERO; LANES];
    lanes.iter_mut().zip(row.iter().step_by(step)).for_each(|(lane, &value)| *lane = value);
    Lanes::load(&lanes)
}

/// Up to sixteen elements, then zeros.
#[inline(always)]
fn first<T: Real, S: Simd>(from: &[T]) -> T::Lanes<S> {
    match from.try_into() {
        Ok(all) => Lanes::load(all),
        Err(_) => Lanes::load_part(from, T::ZERO),
    }
}
