use super::CpuBackend;
use crate::backend::{Backend, Buffer, MatMul, Operand};
use crate::{Error, Result};
use amp_cpu::DType;

impl MatMul for CpuBackend {
    fn matmul(&self, a: Operand<'_>, _b: Operand<'_>, _bias: Option<Operand<'_>>, _out: DType) -> Result<Buffer> {
        Err(Error::Unsupported { op: "matmul", device: self.name(), dtype: a.logical })
    }

    fn matmul_accumulate(&self, a: Operand<'_>, _b: Operand<'_>, _into: &mut Buffer) -> Result<()> {
        Err(Error::Unsupported { op: "matmul", device: self.name(), dtype: a.logical })
    }
}
