//! Pooling and resampling of image planes.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::{DType, Interpolation, Layout, MemoryOrder, Pool2d, Sampling};

/// Pooling and resampling of `[N, C, H, W]` planes, in F32 (F64 for F64); results are rounded once.
///
/// Poolings keep the precision of `x`. `input` and `size` are `[height, width]`. Results, gradients and indices lie in an order
/// that [`pooling_order`](Self::pooling_order) returned; other operands may have any strides.
pub trait Pooling {
    /// The order in which the result of pooling or resizing a tensor, and its gradient, are written fastest.
    fn pooling_order(&self, x: &Layout) -> MemoryOrder {
        let _ = x;
        MemoryOrder::RowMajor
    }

    /// Largest value of each window, and its position in the plane as I64.
    fn max_pool2d(&self, x: Operand<'_>, spec: &Pool2d, order: MemoryOrder) -> Result<(Buffer, Buffer)>;

    /// [`max_pool2d`](Self::max_pool2d) with `size` windows that divide the plane.
    fn adaptive_max_pool2d(&self, x: Operand<'_>, size: [usize; 2], order: MemoryOrder) -> Result<(Buffer, Buffer)>;

    /// The values of [`max_pool2d`](Self::max_pool2d) by `spec`, or by `size` windows that divide the plane, for whoever asks for no
    /// positions.
    fn max_pool2d_values(
        &self,
        x: Operand<'_>,
        spec: Option<&Pool2d>,
        size: [usize; 2],
        order: MemoryOrder,
    ) -> Result<Buffer> {
        let (values, _) = match spec {
            Some(spec) => self.max_pool2d(x, spec, order)?,
            None => self.adaptive_max_pool2d(x, size, order)?,
        };
        Ok(values)
    }

    /// Adds each element of `grad` to the position its maximum came from; `indices` as returned by the pooling by `spec`, or by
    /// windows that divide the plane.
    fn max_pool2d_grad(
        &self,
        grad: Operand<'_>,
        indices: &Buffer,
        input: [usize; 2],
        spec: Option<&Pool2d>,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer>;

    /// Mean of each window.
    fn avg_pool2d(&self, x: Operand<'_>, spec: &Pool2d, count_include_pad: bool, order: MemoryOrder) -> Result<Buffer>;

    /// Gradient of [`avg_pool2d`](Self::avg_pool2d).
    fn avg_pool2d_grad(
        &self,
        grad: Operand<'_>,
        input: [usize; 2],
        spec: &Pool2d,
        count_include_pad: bool,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer>;

    /// Mean of each of `size` windows that divide the plane.
    fn adaptive_avg_pool2d(&self, x: Operand<'_>, size: [usize; 2], order: MemoryOrder) -> Result<Buffer>;

    /// Gradient of [`adaptive_avg_pool2d`](Self::adaptive_avg_pool2d).
    fn adaptive_avg_pool2d_grad(
        &self,
        grad: Operand<'_>,
        input: [usize; 2],
        out: (DType, MemoryOrder),
    ) -> Result<Buffer>;

    /// Planes resized to `size`.
    fn upsample2d(
        &self,
        x: Operand<'_>,
        size: [usize; 2],
        how: Interpolation,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer>;

    /// Gradient of [`upsample2d`](Self::upsample2d).
    fn upsample2d_grad(
        &self,
        grad: Operand<'_>,
        input: [usize; 2],
        how: Interpolation,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer>;

    /// Images at the places of a grid `[N, h, w, 2]`; `None` where element-wise operations are to compute it.
    fn grid_sample(
        &self,
        x: Operand<'_>,
        grid: Operand<'_>,
        how: Sampling,
        out: (DType, MemoryOrder),
    ) -> Result<Option<Buffer>> {
        let _ = (x, grid, how, out);
        Ok(None)
    }

    /// Gradient of [`grid_sample`](Self::grid_sample) with respect to images of size `input`. Only called on devices that have
    /// `grid_sample`.
    fn grid_sample_grad(
        &self,
        grad: Operand<'_>,
        grid: Operand<'_>,
        input: [usize; 2],
        how: Sampling,
        out: (DType, MemoryOrder),
    ) -> Result<Buffer> {
        let _ = (grad, grid, input, how, out);
        unreachable!("a device that samples images has their gradient")
    }

    /// Gradient of [`grid_sample`](Self::grid_sample) with respect to the grid. Only called on devices that have `grid_sample`.
    fn grid_sample_grad_grid(
        &self,
        x: Operand<'_>,
        grid: Operand<'_>,
        grad: Operand<'_>,
        how: Sampling,
        out: DType,
    ) -> Result<Buffer> {
        let _ = (x, grid, grad, how, out);
        unreachable!("a device that samples images has the gradient of the places")
    }
}
