//! What is added to a product before it is rounded.
//!
//! Measured on Zen 5, two threads, BF16 steps in four alternating runs: transformer blocks whose two residuals of F32 are
//! added here take longer than with a sum of its own, GPT 250 ms instead of 239, ViT 300 instead of 290. The models in
//! `examples` therefore add outside.

use super::Places;
use crate::View;
use crate::convert::Compute;
use crate::load::{self, load, offset_of};
use crate::num::Real;
use std::ops::Range;

/// Elements that are loaded at a time.
const CHUNK: usize = 256;

/// The summand of a product, in the product's own rows and columns.
#[derive(Clone, Copy)]
pub(super) struct Residual<'a> {
    pub view: View<'a>,
    /// Leading dimensions that count products.
    outer: usize,
    offset: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Residual<'a> {
    /// Of the first product of a batch.
    pub fn new(view: &View<'a>) -> Self {
        let layout = view.layout;
        let row = layout.shape.len() - 2;
        Self {
            view: *view,
            outer: row,
            offset: layout.offset,
            row_stride: layout.strides[row],
            column_stride: layout.strides[row + 1],
        }
    }

    /// That of a whole batch as one product, whose rows lie `row_stride` apart.
    pub fn folded(self, row_stride: usize) -> Self {
        Self { outer: 0, row_stride, ..self }
    }

    /// That of the product which lies at `places`.
    pub fn beside(self, places: Places) -> Self {
        let (layout, outer) = (self.view.layout, self.outer);
        let offset = self.offset + offset_of(places.product, &layout.shape[..outer], &layout.strides[..outer]);
        let (row_stride, column_stride) = (self.row_stride, self.column_stride);
        match places.transposed {
            true => Self { offset, row_stride: column_stride, column_stride: row_stride, ..self },
            false => Self { offset, ..self },
        }
    }

    /// Adds the elements of a row from `column` on to `values`.
    pub fn add<T: Real + Compute>(&self, row: usize, column: usize, values: &mut [T]) {
        let first = self.offset + row * self.row_stride + column * self.column_stride;
        let mut added = [T::ZERO; CHUNK];
        for (i, values) in values.chunks_mut(CHUNK).enumerate() {
            let added = &mut added[..values.len()];
            load(&self.view, first + i * CHUNK * self.column_stride, self.column_stride, added);
            values.iter_mut().zip(added).for_each(|(value, added)| *value += *added);
        }
    }

    /// Prefetches some rows and columns, where these lie side by side.
    pub fn prefetch(&self, rows: Range<usize>, columns: Range<usize>) {
        if self.column_stride == 1 {
            let first = self.offset + columns.start;
            rows.for_each(|row| load::prefetch_range(self.view.data, first + row * self.row_stride, columns.len()));
        }
    }
}
