//! Selecting and adding by index.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::DType;

/// Kernels that follow I64 indices, which callers have checked with [`check_indices`](Self::check_indices).
pub trait Indexing {
    /// Refuses indices outside `0..size` other than `ignored`.
    ///
    /// A device that would have to wait for the answer may report it with a later call.
    fn check_indices(&self, op: &'static str, index: Operand<'_>, size: usize, ignored: Option<i64>) -> Result<()>;

    /// Slices of `x` at the positions `index` `[K]` of `axis`.
    fn index_select(&self, x: Operand<'_>, axis: usize, index: Operand<'_>) -> Result<Buffer>;

    /// Elements of `x` at positions `index` along `axis`, the other coordinates being those of `index`.
    fn gather(&self, x: Operand<'_>, axis: usize, index: Operand<'_>) -> Result<Buffer>;

    /// `base` with `src` added where [`gather`](Self::gather) would read; sums run in F32 (F64) in a fixed order.
    fn scatter_add(
        &self,
        base: Operand<'_>,
        axis: usize,
        index: Operand<'_>,
        src: Operand<'_>,
        out: DType,
    ) -> Result<Buffer>;

    /// `base` with `src` in the places where [`gather`](Self::gather) would read; of several for one place the last, in row-major
    /// order, stays.
    fn scatter(
        &self,
        base: Operand<'_>,
        axis: usize,
        index: Operand<'_>,
        src: Operand<'_>,
        out: DType,
    ) -> Result<Buffer>;

    /// Zeros with `len` slices along `axis`, to which the slices of `src` are added at the positions `index` `[K]`.
    fn index_add(&self, len: usize, axis: usize, index: Operand<'_>, src: Operand<'_>, out: DType) -> Result<Buffer>;
}
