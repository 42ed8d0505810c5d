use super::{CpuBackend, room, storage_mut, view};
use crate::Result;
use crate::backend::{Buffer, Memory, Operand};
use amp_cpu::{DType, Layout, Storage};
use std::sync::atomic::{AtomicUsize, Ordering};

static CASTS: AtomicUsize = AtomicUsize::new(0);

/// How many conversions by themselves the CPU has run in this process, those that write a copy in another precision;
/// conversions inside kernels and the 16-bit copies that an optimizer writes along do not count.
pub fn cast_kernels() -> usize {
    CASTS.load(Ordering::Relaxed)
}

impl Memory for CpuBackend {
    fn upload(&self, data: Storage) -> Result<Buffer> {
        Ok(Buffer::new(data))
    }

    fn download(&self, buffer: &Buffer) -> Result<Storage> {
        let storage = buffer.downcast::<Storage>().ok_or_else(|| super::foreign("download"))?;
        room("download", storage.len(), storage.dtype())?;
        Ok(storage.clone())
    }

    fn fill(&self, value: f64, len: usize, dtype: DType) -> Result<Buffer> {
        room("fill", len, dtype)?;
        Ok(Buffer::new(amp_cpu::fill(value, len, dtype)))
    }

    fn copy(&self, x: Operand<'_>, out: DType) -> Result<Buffer> {
        CASTS.fetch_add(usize::from(x.buffer.dtype() != out), Ordering::Relaxed);
        Ok(Buffer::new(amp_cpu::copy(&view("copy", x)?, out)))
    }

    fn copy_into(&self, x: Operand<'_>, into: &mut Buffer, at: &Layout) -> Result<()> {
        amp_cpu::copy_into(&view("copy_into", x)?, storage_mut("copy_into", into)?, at);
        Ok(())
    }

    fn join(&self, op: &'static str, parts: &[Operand<'_>], axis: usize, out: DType) -> Result<Buffer> {
        let parts = parts.iter().map(|&part| view(op, part)).collect::<Result<Vec<_>>>()?;
        room(op, parts.iter().map(|part| part.layout.count()).fold(0, usize::saturating_add), out)?;
        Ok(Buffer::new(amp_cpu::join(&parts, axis, out)))
    }
}
