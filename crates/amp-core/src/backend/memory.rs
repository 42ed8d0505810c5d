//! Moving data: between host and device, between layouts, between precisions.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::{DType, Layout, Storage};

/// Allocation and copies.
pub trait Memory {
    /// Copies host data to the device.
    fn upload(&self, data: Storage) -> Result<Buffer>;

    /// Copies a whole buffer to the host; synchronises with the device.
    fn download(&self, buffer: &Buffer) -> Result<Storage>;

    /// A buffer of `len` equal elements.
    fn fill(&self, value: f64, len: usize, dtype: DType) -> Result<Buffer>;

    /// A buffer of `len` elements, all of which [`copy_into`](Self::copy_into) is going to write.
    fn unwritten(&self, len: usize, dtype: DType) -> Result<Buffer> {
        self.fill(0.0, len, dtype)
    }

    /// A contiguous copy of an operand in another precision.
    fn copy(&self, x: Operand<'_>, out: DType) -> Result<Buffer>;

    /// Overwrites a whole buffer with an operand, converted to its type, for everybody who holds it: the inputs that a recorded
    /// step reads. The operand lies in other memory.
    fn overwrite(&self, x: Operand<'_>, into: &Buffer) -> Result<()> {
        let _ = into;
        Err(crate::Error::Unsupported { op: "set", device: "this device".into(), dtype: x.logical })
    }

    /// Writes an operand into part of a buffer that nobody else holds; `at` has the operand's shape.
    fn copy_into(&self, x: Operand<'_>, into: &mut Buffer, at: &Layout) -> Result<()>;

    /// Operands one after the other along `axis`; their other sizes are the same.
    fn join(&self, op: &'static str, parts: &[Operand<'_>], axis: usize, out: DType) -> Result<Buffer> {
        let _ = op;
        let mut shape = parts[0].layout.shape;
        shape[axis] = parts.iter().map(|part| part.layout.shape[axis]).sum();
        let (mut buffer, mut at) = (self.unwritten(shape.count(), out)?, Layout::contiguous(shape));
        for part in parts {
            at.shape[axis] = part.layout.shape[axis];
            if at.count() > 0 {
                self.copy_into(*part, &mut buffer, &at)?;
            }
            at.offset += at.shape[axis] * at.strides[axis];
        }
        Ok(buffer)
    }
}
