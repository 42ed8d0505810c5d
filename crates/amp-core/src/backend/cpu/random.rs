use super::{CpuBackend, room};
use crate::Result;
use crate::backend::{Buffer, Random};
use crate::random::RandomState;
use amp_cpu::DType;

impl Random for CpuBackend {
    fn uniform(&self, at: RandomState, low: f64, high: f64, len: usize, dtype: DType) -> Result<Buffer> {
        room("rand", len, dtype)?;
        Ok(Buffer::new(amp_cpu::random_uniform(at.seed, at.offset, low, high, len, dtype)))
    }

    fn normal(&self, at: RandomState, mean: f64, std: f64, len: usize, dtype: DType) -> Result<Buffer> {
        room("randn", len, dtype)?;
        Ok(Buffer::new(amp_cpu::random_normal(at.seed, at.offset, mean, std, len, dtype)))
    }

    fn mask(&self, at: RandomState, keep: f64, len: usize) -> Result<Buffer> {
        room("dropout", len, DType::Bool)?;
        Ok(Buffer::new(amp_cpu::random_mask(at.seed, at.offset, keep, len)))
    }
}
