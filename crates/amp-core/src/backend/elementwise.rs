//! Element-wise kernels; operands of one call all have the same shape.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::{Binary, Compare, DType, PairLoss, Ternary, Unary};

/// Element-wise kernels. Arithmetic is in F32 (F64 where an operand is F64); results are rounded once, to `out`.
pub trait Elementwise {
    /// `op(x)`
    fn unary(&self, op: Unary, x: Operand<'_>, out: DType) -> Result<Buffer>;

    /// `grad * op'(..)`; `saved` is the output of `op` where [`Unary::grad_from_output`], its input elsewhere.
    fn unary_grad(&self, op: Unary, saved: Operand<'_>, grad: Operand<'_>, out: DType) -> Result<Buffer>;

    /// `op(a, b)`
    fn binary(&self, op: Binary, a: Operand<'_>, b: Operand<'_>, out: DType) -> Result<Buffer>;

    /// [`binary`](Self::binary), and the same result rounded once more to the 16-bit precision `also` where the device writes
    /// both at once.
    fn binary_narrowed(
        &self,
        op: Binary,
        a: Operand<'_>,
        b: Operand<'_>,
        out: DType,
        also: DType,
    ) -> Result<(Buffer, Option<Buffer>)> {
        let _ = also;
        Ok((self.binary(op, a, b, out)?, None))
    }

    /// `op(a, b)` as truth values.
    fn compare(&self, op: Compare, a: Operand<'_>, b: Operand<'_>) -> Result<Buffer>;

    /// `condition ? a : b`
    fn select(&self, condition: Operand<'_>, a: Operand<'_>, b: Operand<'_>, out: DType) -> Result<Buffer>;

    /// Where `x` is 0 or less, a bit for each element in row-major order, where the device has a kernel for that.
    fn dead(&self, x: Operand<'_>) -> Result<Option<Buffer>> {
        let _ = x;
        Ok(None)
    }

    /// `grad`, and 0 where [`dead`](Self::dead) has a bit; `None` where the device has no kernel for that.
    fn alive(&self, dead: &Buffer, grad: Operand<'_>, out: DType) -> Result<Option<Buffer>> {
        let _ = (dead, grad, out);
        Ok(None)
    }

    /// `op(a, b, c)`
    fn ternary(&self, op: Ternary, a: Operand<'_>, b: Operand<'_>, c: Operand<'_>, out: DType) -> Result<Buffer>;

    /// The first half of `x` along `axis` times the sigmoid of the second; `None` where the device has no kernel for that.
    fn glu(&self, x: Operand<'_>, axis: usize, out: DType) -> Result<Option<Buffer>> {
        let _ = (x, axis, out);
        Ok(None)
    }

    /// Gradient of [`glu`](Self::glu); `None` where the device has no kernel for that.
    fn glu_grad(&self, x: Operand<'_>, grad: Operand<'_>, axis: usize, out: DType) -> Result<Option<Buffer>> {
        let _ = (x, grad, axis, out);
        Ok(None)
    }

    /// The loss of each element of `x` and its target `t`; `None` where the device has no kernel for that.
    fn losses(&self, loss: PairLoss, x: Operand<'_>, t: Operand<'_>, out: DType) -> Result<Option<Buffer>> {
        let _ = (loss, x, t, out);
        Ok(None)
    }

    /// The sum of [`losses`](Self::losses), or their mean, one element; `None` where the device has no kernel for that.
    fn loss_total(
        &self,
        loss: PairLoss,
        x: Operand<'_>,
        t: Operand<'_>,
        mean: bool,
        out: DType,
    ) -> Result<Option<Buffer>> {
        let _ = (loss, x, t, mean, out);
        Ok(None)
    }

    /// `grad` times the derivative of [`losses`](Self::losses) of `operands` `x` and `t`: with respect to `t` if `of_target`,
    /// otherwise to `x`. Only called on devices that have losses.
    fn loss_grad(
        &self,
        loss: PairLoss,
        operands: [Operand<'_>; 2],
        grad: Operand<'_>,
        of_target: bool,
        out: DType,
    ) -> Result<Buffer> {
        let _ = (loss, operands, grad, of_target, out);
        unreachable!("a device that has losses has their gradient")
    }
}
