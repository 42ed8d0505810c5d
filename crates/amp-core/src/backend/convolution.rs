//! Convolutions.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::{Conv2d, DType, MemoryOrder};

/// Convolutions of `[N, C, H, W]` images; accumulators are F32 (F64 for F64). Images of one dimension have height 1.
pub trait Convolution {
    /// The order in which [`conv2d`](Self::conv2d) writes its result for these operands.
    fn conv2d_order(&self, x: Operand<'_>, w: Operand<'_>, spec: &Conv2d) -> Result<MemoryOrder> {
        let _ = (x, w, spec);
        Ok(MemoryOrder::RowMajor)
    }

    /// The order in which [`conv_transpose2d`](Self::conv_transpose2d) writes its result for these operands.
    fn conv_transpose2d_order(&self, x: Operand<'_>, w: Operand<'_>, spec: &Conv2d) -> Result<MemoryOrder> {
        let _ = (x, w, spec);
        Ok(MemoryOrder::RowMajor)
    }

    /// `x` `[N, C, H, W]` with `w` `[O, C / groups, kh, kw]` plus `bias` `[O]`, rounded once to `out`.
    fn conv2d(
        &self,
        x: Operand<'_>,
        w: Operand<'_>,
        bias: Option<Operand<'_>>,
        spec: &Conv2d,
        out: DType,
    ) -> Result<Buffer>;

    /// `x` `[N, O, h, w]` back through `w` `[O, C / groups, kh, kw]` to `output` `[N, C, H, W]`, plus `bias` `[C]`; also the
    /// gradient of [`conv2d`](Self::conv2d) with respect to its input.
    fn conv_transpose2d(
        &self,
        x: Operand<'_>,
        w: Operand<'_>,
        bias: Option<Operand<'_>>,
        output: [usize; 4],
        spec: &Conv2d,
        out: DType,
    ) -> Result<Buffer>;

    /// Adds [`conv_transpose2d`](Self::conv_transpose2d) in its order to a buffer of the accumulators' precision, where that is
    /// less work than adding it afterwards; returns whether it did.
    fn conv_transpose2d_accumulate(
        &self,
        x: Operand<'_>,
        w: Operand<'_>,
        output: [usize; 4],
        spec: &Conv2d,
        into: &mut Buffer,
    ) -> Result<bool> {
        let _ = (x, w, output, spec, into);
        Ok(false)
    }

    /// Gradient of [`conv2d`](Self::conv2d) with respect to its kernel, in F32 (F64 for F64) straight from the sums.
    fn conv2d_grad_weight(
        &self,
        grad: Operand<'_>,
        x: Operand<'_>,
        weight: [usize; 4],
        spec: &Conv2d,
    ) -> Result<Buffer>;

    /// Adds [`conv2d_grad_weight`](Self::conv2d_grad_weight) to a buffer of the accumulators' precision.
    fn conv2d_grad_weight_accumulate(
        &self,
        grad: Operand<'_>,
        x: Operand<'_>,
        weight: [usize; 4],
        spec: &Conv2d,
        into: &mut Buffer,
    ) -> Result<()>;
}
