use super::{CpuBackend, view};
use crate::Result;
use crate::backend::{Buffer, Operand, Reduction};
use amp_cpu::{DType, Reduce};

impl Reduction for CpuBackend {
    fn reduce(&self, op: Reduce, x: Operand<'_>, axes: &[usize], out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::reduce(op, &view("reduce", x)?, axes, out)))
    }
}
