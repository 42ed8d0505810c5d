//~ error: `1e-8` becomes 0 in `f16`
use amp::prelude::*;

trait Shift {
    fn shift(&self, by: f64) -> Result<Tensor<F16>>;
}

impl Shift for Tensor<F16> {
    fn shift(&self, by: f64) -> Result<Tensor<F16>> {
        self + by
    }
}

pub struct Net {
    w: Tensor<F32>,
}

impl Net {
    #[autocast(f16, lower(shift))]
    pub fn forward(&self) -> Result<Tensor<F32>> {
        self.w.shift(1e-8)
        //~ ^ here
    }
}

fn main() {}
