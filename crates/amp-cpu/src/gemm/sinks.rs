//! Where products go: into a result, rounded with what is added to it first, or onto the sums that are there.

use super::product::{Place, Sink};
use super::residual::Residual;
use crate::num::Real;
use crate::output::{Finished, Output};
use crate::scratch;
use std::ops::Range;

/// Where a product lies in a buffer, and whether it was computed as its transpose.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// Number of the product in its batch.
    pub product: usize,
    pub start: usize,
    pub row_stride: usize,
    pub column_stride: usize,
    pub transposed: bool,
}

impl Places {
    pub(super) fn at(&self, row: usize, column: usize) -> usize {
        self.start + row * self.row_stride + column * self.column_stride
    }

    fn prefetch(&self, output: &Output, rows: Range<usize>, columns: Range<usize>) {
        if !self.transposed {
            output.prefetch(self.at(rows.start, columns.start), self.row_stride, rows.len(), columns.len());
        }
    }

    /// Adds the bias, if any, to values of a row; of a transpose it is one for the whole row.
    fn add_bias<T: Real>(&self, bias: &[T], row: usize, column: usize, values: &mut [T]) {
        if self.transposed {
            if let Some(&bias) = bias.get(row) {
                values.iter_mut().for_each(|value| *value += bias);
            }
        } else if !bias.is_empty() {
            values.iter_mut().zip(&bias[column..]).for_each(|(value, &bias)| *value += bias);
        }
    }
}

/// Adds bias and residual, rounds and stores.
pub(super) struct Rounded<'a, T> {
    pub output: Output<'a>,
    pub places: Places,
    pub bias: &'a [T],
    pub residual: Option<Residual<'a>>,
}

impl<T: Real> Sink<T> for Rounded<'_, T> {
    fn prefetch(&self, rows: Range<usize>, columns: Range<usize>) {
        if let Some(residual) = &self.residual {
            residual.prefetch(rows.clone(), columns.clone());
        }
        self.places.prefetch(&self.output, rows, columns);
    }

    fn store(&self, row: usize, column: usize, values: &mut [T]) {
        self.places.add_bias(self.bias, row, column, values);
        if let Some(residual) = &self.residual {
            residual.add(row, column, values);
        }
        // SAFETY: each task stores its own block of the result (`Sink`), and products of a batch have their own.
        unsafe { self.output.store(self.places.at(row, column), self.places.column_stride, values) }
    }

    fn place(&self, row: usize, column: usize) -> Option<Place<'_, T>> {
        let Self { output, places, bias, residual } = self;
        if places.transposed || residual.is_some() {
            return None;
        }
        let bias = if bias.is_empty() { bias } else { &bias[column..] };
        Some(Place { output, at: places.at(row, column), stride: places.row_stride, bias })
    }

    fn store_rows(&self, row: usize, column: usize, columns: usize, lines: Finished<'_, T>) {
        let Places { row_stride, transposed, .. } = self.places;
        if transposed || self.residual.is_some() {
            let lines = lines.chunks().enumerate();
            return lines.for_each(|(i, line)| self.store(row + i, column, &mut line[..columns]));
        }
        let bias = if self.bias.is_empty() { self.bias } else { &self.bias[column..][..columns] };
        // SAFETY: as above.
        unsafe { self.output.store_rows(self.places.at(row, column), row_stride, columns, bias, lines) }
    }

    fn bias(&self) -> &[T] {
        if self.places.transposed { &[] } else { self.bias }
    }

    fn write_rows(&self, row: usize, rows: usize, columns: usize, write: &mut dyn FnMut(&mut [T])) {
        let start = self.places.at(row, 0);
        if self.places.transposed {
            return scratch::with(rows * columns, |values: &mut [T]| {
                write(values);
                self.store_rows(row, 0, columns, Finished { values, len: columns });
            });
        }
        if self.residual.is_none() {
            // SAFETY: as above; whole rows follow one another.
            let mut there = unsafe { self.output.part(start, rows * columns) };
            if let Some(values) = T::same_mut(&mut there) {
                return write(values);
            }
        }
        scratch::with(rows * columns, |values: &mut [T]| {
            write(values);
            if let Some(residual) = &self.residual {
                let lines = values.chunks_exact_mut(columns).enumerate();
                lines.for_each(|(i, line)| residual.add(row + i, 0, line));
            }
            // SAFETY: as above; what borrowed them is gone.
            unsafe { self.output.store(start, 1, values) }
        });
    }
}

/// Adds to what is there, in the computing type.
pub(super) struct Sums<'a> {
    pub output: Output<'a>,
    pub places: Places,
}

impl<T: Real> Sink<T> for Sums<'_> {
    fn store(&self, row: usize, column: usize, values: &mut [T]) {
        // SAFETY: each task stores its own block of the result (`Sink`); where products share a matrix they run one
        // after the other.
        unsafe { self.output.accumulate(self.places.at(row, column), self.places.column_stride, values) }
    }
}
