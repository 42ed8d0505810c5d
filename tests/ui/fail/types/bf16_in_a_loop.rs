//~ error: this `BF16` tensor meets `F16`
use amp::prelude::*;

pub struct Power {
    base: Tensor<BF16>,
}

impl Power {
    #[autocast(f16)]
    pub fn f(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = x.clone();
        for _ in 0..3 {
            h = h.matmul(&self.base)?;
            //~        ^ here
        }
        Ok(h)
    }
}

fn main() {}
