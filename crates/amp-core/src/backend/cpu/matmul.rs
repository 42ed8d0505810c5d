use super::{CpuBackend, room, storage_mut, view};
use crate::Result;
use crate::backend::{Buffer, MatMul, Operand};
use amp_cpu::{DType, Epilogue, View};

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
}

/// Number of elements of a product.
fn elements(a: &View, b: &View) -> usize {
    let columns = b.layout.shape.last().copied().unwrap_or(0);
    let rows: usize = a.layout.shape[..a.layout.shape.len() - 1].iter().product();
    rows.saturating_mul(columns)
}
