use crate::args::{CopyArgs, CopyIntoArgs, FillArgs, TransposeArgs};
use crate::device::{Gpu, Memory as GpuMemory};
use crate::error::foreign;
use crate::launch::Plain;
use crate::module::Family::Copy as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::backend::{Buffer, DType, Layout, Memory, Operand as CoreOperand, Storage};
use amp_core::{Error, Result};
use half::slice::HalfFloatSliceExt;

/// The type that a copy goes through: integers become 16-bit numbers at once, in F32 large ones would be rounded before that.
fn computing(from: DType, out: DType) -> Compute {
    if from == DType::I64 && out.is_half() { Compute::I64 } else { Compute::of(&[from, out]) }
}

impl Gpu {
    fn uploaded<T: Plain>(&self, data: &[T], dtype: DType) -> Result<Buffer> {
        let memory = self.memory("upload", data.len(), dtype)?;
        self.write("upload", data, &memory)?;
        Ok(memory.into_buffer())
    }

    fn downloaded<T: Plain>(&self, memory: &GpuMemory) -> Result<Vec<T>> {
        let mut data = vec![T::default(); memory.len()];
        self.read("download", memory, &mut data)?;
        self.bad_index()?;
        Ok(data)
    }

    /// Writes `x` to memory of as many elements, in row-major order.
    fn copy_to(&self, memory: &GpuMemory, op: &'static str, x: CoreOperand<'_>) -> Result<()> {
        let (n, out) = (x.layout.count(), memory.dtype());
        let compute = Some(computing(x.logical, out));
        let (x, y, blocks) = (Operand::new(self, op, x)?, memory.address(), self.spread_elements(n, tag(out)));
        match x.turned() {
            Some(axis) => {
                let args = TransposeArgs { x, y, n: n as i64, out: tag(out), axis: axis as i32 };
                self.launch(FAMILY, "transpose", compute, blocks, args)
            }
            None => self.launch(FAMILY, "copy", compute, blocks, CopyArgs { x, y, n: n as i64, out: tag(out) }),
        }
    }
}

impl Memory for Gpu {
    fn upload(&self, data: Storage) -> Result<Buffer> {
        match data {
            Storage::F16(v) => self.uploaded(v.reinterpret_cast(), DType::F16),
            Storage::BF16(v) => self.uploaded(v.reinterpret_cast(), DType::BF16),
            Storage::F32(v) => self.uploaded(&v, DType::F32),
            Storage::F64(v) => self.uploaded(&v, DType::F64),
            Storage::I64(v) => self.uploaded(&v, DType::I64),
            Storage::U8(v) => self.uploaded(&v, DType::U8),
            Storage::Bool(v) => self.uploaded(&v.iter().map(|&b| u8::from(b)).collect::<Vec<_>>(), DType::Bool),
        }
    }

    fn download(&self, buffer: &Buffer) -> Result<Storage> {
        let memory = buffer.downcast::<GpuMemory>().filter(|m| m.belongs_to(self));
        let memory = memory.ok_or_else(|| foreign(self, "download"))?;
        Ok(match memory.dtype() {
            DType::F16 => Storage::F16(self.downloaded(memory)?.into_iter().map(half::f16::from_bits).collect()),
            DType::BF16 => Storage::BF16(self.downloaded(memory)?.into_iter().map(half::bf16::from_bits).collect()),
            DType::F32 => Storage::F32(self.downloaded(memory)?.into()),
            DType::F64 => Storage::F64(self.downloaded(memory)?.into()),
            DType::I64 => Storage::I64(self.downloaded(memory)?.into()),
            DType::U8 => Storage::U8(self.downloaded(memory)?.into()),
            DType::Bool => Storage::Bool(self.downloaded::<u8>(memory)?.into_iter().map(|b| b != 0).collect()),
        })
    }

    fn fill(&self, value: f64, len: usize, dtype: DType) -> Result<Buffer> {
        if value.to_bits() == 0 {
            return Ok(self.zeros("fill", len, dtype)?.into_buffer());
        }
        let y = self.memory("fill", len, dtype)?;
        let args = FillArgs { y: y.address(), n: len as i64, out: tag(dtype), value };
        self.launch(FAMILY, "fill", None, self.spread_elements(len, args.out), args)?;
        Ok(y.into_buffer())
    }

    fn unwritten(&self, len: usize, dtype: DType) -> Result<Buffer> {
        Ok(self.memory("unwritten", len, dtype)?.into_buffer())
    }

    fn copy(&self, x: CoreOperand<'_>, out: DType) -> Result<Buffer> {
        let y = self.memory("copy", x.layout.count(), out)?;
        self.copy_to(&y, "copy", x)?;
        Ok(y.into_buffer())
    }

    fn overwrite(&self, x: CoreOperand<'_>, into: &Buffer) -> Result<()> {
        let memory = into.downcast::<GpuMemory>().filter(|m| m.belongs_to(self)).ok_or_else(|| foreign(self, "set"))?;
        let n = x.layout.count();
        if n != memory.len() {
            return Err(self.refusal("set", format!("{n} elements for memory of {}", memory.len())));
        }
        self.copy_to(memory, "set", x)
    }

    fn copy_into(&self, x: CoreOperand<'_>, into: &mut Buffer, at: &Layout) -> Result<()> {
        if !into.is_unique() {
            let message = "memory that is shared cannot be written".into();
            return Err(Error::Backend { op: "copy_into", device: self.name().into(), message });
        }
        let target = CoreOperand { buffer: into, layout: at, logical: into.dtype() };
        let n = x.layout.count();
        let compute = computing(x.logical, into.dtype());
        let y = Operand::new(self, "copy_into", target)?;
        let args = CopyIntoArgs { x: Operand::new(self, "copy_into", x)?, y, n: n as i64 };
        self.launch(FAMILY, "copy_into", Some(compute), self.spread_elements(n, y.stored), args)
    }
}
