//! Random fills.

use super::Buffer;
use crate::Result;
use crate::random::RandomState;
use amp_cpu::DType;

/// Random kernels: element `i` depends on the seed and on `offset + i` only, on every device alike.
pub trait Random {
    /// Uniform values of `[low, high)`.
    fn uniform(&self, at: RandomState, low: f64, high: f64, len: usize, dtype: DType) -> Result<Buffer>;

    /// Normal values (Box-Muller).
    fn normal(&self, at: RandomState, mean: f64, std: f64, len: usize, dtype: DType) -> Result<Buffer>;

    /// Truth values that are true with probability `keep`.
    fn mask(&self, at: RandomState, keep: f64, len: usize) -> Result<Buffer>;
}
