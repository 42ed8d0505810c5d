use super::{CpuBackend, room, storage_mut, view};
use crate::Result;
use crate::backend::{Buffer, MatMul, Operand};
use amp_cpu::{DType, Epilogue, Unary, View};

impl MatMul for CpuBackend {
    fn matmul(&self, a: Operand<'_>, b: Operand<'_>, bias: Option<Operand<'_>>, out: DType) -> Result<Buffer> {
        let bias = bias.map(|bias| view("matmul", bias)).transpose()?;
        let (a, b) = (view("matmul", a)?, view("matmul", b)?);
        room("matmul", elements(&a, &b), out)?;
        let result = amp_cpu::matmul(&a, &b, &Epilogue { bias }, out);
        Ok(Buffer::new(result))
    }

    fn matmul_accumulate(&self, a: Operand<'_>, b: Operand<'_>, into: &mut Buffer) -> Result<()> {
        amp_cpu::matmul_acc(&view("matmul", a)?, &view("matmul", b)?, storage_mut("matmul", into)?);
        Ok(())
    }

    fn matmul_unary(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        bias: Option<Operand<'_>>,
        op: Unary,
        out: DType,
    ) -> Result<[Buffer; 2]> {
        let bias = bias.map(|bias| view("matmul", bias)).transpose()?;
        let (a, b) = (view("matmul", a)?, view("matmul", b)?);
        room("matmul", elements(&a, &b).saturating_mul(2), out)?;
        let (x, y) = amp_cpu::matmul_unary(&a, &b, &Epilogue { bias }, op, out);
        Ok([Buffer::new(x), Buffer::new(y)])
    }

    fn matmul_unary_grad(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        op: Unary,
        saved: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        let (a, b, saved) = (view("matmul", a)?, view("matmul", b)?, view("matmul", saved)?);
        room("matmul", elements(&a, &b), out)?;
        Ok(Buffer::new(amp_cpu::matmul_unary_grad(&a, &b, op, &saved, out)))
    }
}

/// Number of elements of a product.
fn elements(a: &View, b: &View) -> usize {
    let columns = b.layout.shape.last().copied().unwrap_or(0);
    let rows: usize = a.layout.shape[..a.layout.shape.len() - 1].iter().product();
    rows.saturating_mul(columns)
}
