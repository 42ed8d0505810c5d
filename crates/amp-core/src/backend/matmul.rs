//! Matrix products.

use super::{Buffer, Elementwise, Operand};
use crate::Result;
use amp_cpu::{Binary, DType, Dims, Layout, Unary};

/// Matrix products of `[.., M, K]` and `[.., K, N]` operands with one batch shape; accumulators are F32 (F64 for F64).
pub trait MatMul: Elementwise {
    /// Whether products and convolutions that multiply each element of an F32 operand with `met` elements of the other one can
    /// round it to 16 bits as fast as they could read a 16-bit copy.
    fn rounds_as_it_packs(&self, met: usize) -> bool {
        let _ = met;
        false
    }

    /// `a · b (+ bias)`, rounded once to `out`; `bias` is `[N]`.
    fn matmul(&self, a: Operand<'_>, b: Operand<'_>, bias: Option<Operand<'_>>, out: DType) -> Result<Buffer>;

    /// `a · b (+ bias) + residual`, rounded once to `out`; `residual` is `[.., M, N]` with any strides, and F64 where `a` is.
    fn matmul_add(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        bias: Option<Operand<'_>>,
        residual: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        let sums = if a.logical == DType::F64 { DType::F64 } else { DType::F32 };
        let product = self.matmul(a, b, bias, sums)?;
        let layout = Layout::contiguous(residual.layout.shape);
        self.binary(Binary::Add, Operand { buffer: &product, layout: &layout, logical: sums }, residual, out)
    }

    /// `into += a · b` with the accumulator's precision; a batch is summed when `into` holds one matrix only.
    fn matmul_accumulate(&self, a: Operand<'_>, b: Operand<'_>, into: &mut Buffer) -> Result<()>;

    /// `a · b` of two matrices in the accumulators' precision, and the sums of the rows of `a` `[M]` where the device forms
    /// them in the same pass: gradients of a dense layer's weight and bias.
    fn matmul_sums(&self, a: Operand<'_>, b: Operand<'_>, out: DType) -> Result<(Buffer, Option<Buffer>)> {
        Ok((self.matmul(a, b, None, out)?, None))
    }

    /// As [`matmul_sums`](Self::matmul_sums) with `into += a · b`; the sums are those of this call.
    fn matmul_accumulate_sums(&self, a: Operand<'_>, b: Operand<'_>, into: &mut Buffer) -> Result<Option<Buffer>> {
        self.matmul_accumulate(a, b, into)?;
        Ok(None)
    }

    /// `a · b (+ bias)` rounded to `out`, and `op` of that rounded to `out`: the bits of [`matmul`](Self::matmul) followed by
    /// [`unary`](Elementwise::unary). A GPU may apply relu or gelu's approximation inside the product, before it rounds, which is
    /// nearer to the exact value. Where [`Unary::grad_from_output`], both results may be the second.
    fn matmul_unary(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        bias: Option<Operand<'_>>,
        op: Unary,
        out: DType,
    ) -> Result<[Buffer; 2]> {
        unary_after(self, self.matmul(a, b, bias, out)?, op, out)
    }

    /// `grad * op'(..)` for `grad = a · b` rounded to `out`: the bits of [`matmul`](Self::matmul) and
    /// [`unary_grad`](Elementwise::unary_grad) in turn, or, as above, rounded once. `saved` is `[.., M, N]`, what
    /// [`unary_grad`](Elementwise::unary_grad) takes.
    fn matmul_unary_grad(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        op: Unary,
        saved: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        unary_grad_after(self, self.matmul(a, b, None, out)?, op, saved, out)
    }
}

/// The product `x` and `op` of it, both rounded to `out`: [`MatMul::matmul_unary`] in two passes.
pub fn unary_after<B: Elementwise + ?Sized>(on: &B, x: Buffer, op: Unary, out: DType) -> Result<[Buffer; 2]> {
    let layout = Layout::contiguous(Dims::new(&[x.len()]).unwrap_or_default());
    let y = on.unary(op, Operand { buffer: &x, layout: &layout, logical: out }, out)?;
    Ok([x, y])
}

/// The product `grad`, rounded to `out`, times `op`'s derivative at `saved`: [`MatMul::matmul_unary_grad`] in two passes.
pub fn unary_grad_after<B: Elementwise + ?Sized>(
    on: &B,
    grad: Buffer,
    op: Unary,
    saved: Operand<'_>,
    out: DType,
) -> Result<Buffer> {
    let layout = Layout::contiguous(saved.layout.shape);
    on.unary_grad(op, saved, Operand { buffer: &grad, layout: &layout, logical: out }, out)
}
