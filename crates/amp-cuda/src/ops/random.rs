use crate::args::RandomArgs;
use crate::device::Gpu;
use crate::module::Family;
use crate::operand::tag;
use amp_core::backend::{Buffer, DType, Random, uniform_last};
use amp_core::{RandomState, Result};

impl Gpu {
    fn random(&self, stem: &'static str, at: RandomState, p: [f64; 3], len: usize, dtype: DType) -> Result<Buffer> {
        let y = self.memory(stem, len, dtype)?;
        let RandomState { seed, offset } = at;
        let (base, offset) = self.recorder().stream_of(at).unwrap_or((0, offset));
        let args = RandomArgs { y: y.address(), n: len as i64, seed, offset, base, p, out: tag(dtype) };
        self.launch(Family::Random, stem, None, self.spread(len), args)?;
        Ok(y.into_buffer())
    }
}

impl Random for Gpu {
    fn uniform(&self, at: RandomState, low: f64, high: f64, len: usize, dtype: DType) -> Result<Buffer> {
        self.random("random_uniform", at, [low, high - low, uniform_last(low, high, dtype)], len, dtype)
    }

    fn normal(&self, at: RandomState, mean: f64, std: f64, len: usize, dtype: DType) -> Result<Buffer> {
        self.random("random_normal", at, [mean, std, 0.0], len, dtype)
    }

    fn mask(&self, at: RandomState, keep: f64, len: usize) -> Result<Buffer> {
        let threshold = (keep.clamp(0.0, 1.0) * 4_294_967_296.0).floor();
        self.random("random_mask", at, [threshold, 0.0, 0.0], len, DType::Bool)
    }
}
