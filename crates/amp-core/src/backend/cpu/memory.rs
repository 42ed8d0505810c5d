use super::{CpuBackend, storage_mut, view};
use crate::Result;
use crate::backend::{Buffer, Memory, Operand};
use amp_cpu::{DType, Layout, Storage};

impl Memory for CpuBackend {
    fn upload(&self, data: Storage) -> Result<Buffer> {
        Ok(Buffer::new(data))
    }

    fn download(&self, buffer: &Buffer) -> Result<Storage> {
        buffer.downcast::<Storage>().cloned().ok_or_else(|| super::foreign("download"))
    }

    fn fill(&self, value: f64, len: usize, dtype: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::fill(value, len, dtype)))
    }

    fn copy(&self, x: Operand<'_>, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::copy(&view("copy", x)?, out)))
    }

    fn copy_into(&self, x: Operand<'_>, into: &mut Buffer, at: &Layout) -> Result<()> {
        amp_cpu::copy_into(&view("copy_into", x)?, storage_mut("copy_into", into)?, at);
        Ok(())
    }
}
