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

    /// A contiguous copy of an operand in another precision.
    fn copy(&self, x: Operand<'_>, out: DType) -> Result<Buffer>;

    /// Writes an operand over a whole buffer, in its type, for all who hold it: what a recorded step reads.
    fn overwrite(&self, x: Operand<'_>, into: &Buffer) -> Result<()> {
        let _ = into;
        Err(crate::Error::Unsupported { op: "set", device: "this device".into(), dtype: x.logical })
    }

    /// Writes an operand into part of a buffer that nobody else holds; `at` has the operand's shape.
    fn copy_into(&self, x: Operand<'_>, into: &mut Buffer, at: &Layout) -> Result<()>;
}
