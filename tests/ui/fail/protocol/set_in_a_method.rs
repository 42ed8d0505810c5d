//~ error: `set` does not belong inside an autocast region
use amp::prelude::*;

pub struct Net {
    w: Parameter,
}

impl Net {
    #[autocast(f16)]
    pub fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.w.set(x)?;
        //~ ^ here
        x.matmul(x)
    }
}

#[autocast(f16)]
pub fn set(w: &Counter) -> usize {
    w.set(3)
}

pub struct Counter;

impl Counter {
    pub fn set(&self, to: usize) -> usize {
        to
    }
}

fn main() {}
