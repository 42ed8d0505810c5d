//! Matrix products.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::DType;

/// Matrix products of `[.., M, K]` and `[.., K, N]` operands with one batch shape; accumulators are F32 (F64 for F64).
pub trait MatMul {
    /// `a · b (+ bias)`, rounded once to `out`; `bias` is `[N]`.
    fn matmul(&self, a: Operand<'_>, b: Operand<'_>, bias: Option<Operand<'_>>, out: DType) -> Result<Buffer>;

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
}
