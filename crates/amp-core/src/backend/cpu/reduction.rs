use super::CpuBackend;
use crate::backend::{Backend, Buffer, Operand, Reduction};
use crate::{Error, Result};
use amp_cpu::{DType, Reduce};

impl Reduction for CpuBackend {
    fn reduce(&self, _op: Reduce, x: Operand<'_>, _axes: &[usize], _out: DType) -> Result<Buffer> {
        Err(Error::Unsupported { op: "reduce", device: self.name(), dtype: x.logical })
    }
}
