//! Products whose operands are not all finite: their elements that are NaN are left out, and computed in F32 afterwards.
//!
//! The low part of an infinity is NaN, and so is every sum that it goes into, while sums of finite parts are finite. Packing
//! such a number sets a flag before a tile is computed from it; as long as it is not set, sums are not searched for NaN.

use crate::gemm::kernel::Multiply;
use crate::gemm::operand::Matrix;
use crate::gemm::product::{Place, Sink, Threads};
use crate::output::Finished;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Columns that are left out together: those of a tile, so that threads make no difference.
const BLOCK: usize = super::super::SIDE;

/// A sink that hands sums on to another, except for NaN.
pub(super) struct Finite<'a> {
    sink: &'a dyn Sink<f32>,
    /// Rows and columns of the product.
    size: [usize; 2],
    /// Whether an element of an operand is not finite.
    found: AtomicBool,
    /// For each row, and each block of columns within one, whether it was left out.
    left_out: OnceLock<Vec<AtomicBool>>,
}

impl<'a> Finite<'a> {
    pub(super) fn new(sink: &'a dyn Sink<f32>, size: [usize; 2]) -> Self {
        Self { sink, size, found: AtomicBool::new(false), left_out: OnceLock::new() }
    }

    /// Notes that an element of an operand is not finite.
    pub(super) fn found(&self) {
        self.found.store(true, Relaxed);
    }

    fn block(&self, row: usize, column: usize) -> usize {
        row * self.size[1].div_ceil(BLOCK) + column / BLOCK
    }

    fn leave_out(&self, row: usize, column: usize) {
        let count = self.block(self.size[0], 0);
        let left_out = self.left_out.get_or_init(|| (0..count).map(|_| AtomicBool::new(false)).collect());
        left_out[self.block(row, column)].store(true, Relaxed);
    }

    /// Computes what was left out of `a · bᵀ`.
    pub(super) fn finish(self, a: &Matrix, b: &Matrix, threads: Threads) {
        if self.left_out.get().is_some() {
            f32::product(a, b, &LeftOut(&self), threads);
        }
    }
}

impl Sink<f32> for Finite<'_> {
    fn prefetch(&self, rows: Range<usize>, columns: Range<usize>) {
        self.sink.prefetch(rows, columns);
    }

    fn tiled(&self, rows: Range<usize>, columns: Range<usize>, stores: bool) {
        self.sink.tiled(rows, columns, stores);
    }

    fn place(&self, row: usize, column: usize) -> Option<Place<'_, f32>> {
        if self.found.load(Relaxed) { None } else { self.sink.place(row, column) }
    }

    fn store(&self, row: usize, column: usize, values: &mut [f32]) {
        if !self.found.load(Relaxed) {
            return self.sink.store(row, column, values);
        }
        for (column, values) in (column..).step_by(BLOCK).zip(values.chunks_mut(BLOCK)) {
            match values.iter().any(|value| value.is_nan()) {
                true => self.leave_out(row, column),
                false => self.sink.store(row, column, values),
            }
        }
    }

    fn store_rows(&self, row: usize, column: usize, columns: usize, lines: Finished<'_, f32>) {
        if !self.found.load(Relaxed) {
            return self.sink.store_rows(row, column, columns, lines);
        }
        lines.chunks().enumerate().for_each(|(i, line)| self.store(row + i, column, &mut line[..columns]));
    }
}

/// A sink that hands on what another has left out.
struct LeftOut<'a>(&'a Finite<'a>);

impl Sink<f32> for LeftOut<'_> {
    fn store(&self, row: usize, mut column: usize, mut values: &mut [f32]) {
        let Some(left_out) = self.0.left_out.get() else { return };
        while !values.is_empty() {
            let here = (BLOCK - column % BLOCK).min(values.len());
            let (block, rest) = values.split_at_mut(here);
            if left_out[self.0.block(row, column)].load(Relaxed) {
                self.0.sink.store(row, column, block);
            }
            (column, values) = (column + here, rest);
        }
    }
}
