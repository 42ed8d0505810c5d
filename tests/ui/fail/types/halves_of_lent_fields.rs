//~ error: `F16` and `BF16` tensors meet here
use amp::prelude::*;

pub struct Start {
    half: Tensor<BF16>,
}

impl Start {
    #[autocast(f16)]
    pub fn f(&self, x: &Tensor<F32>, first: bool) -> Result<Tensor<F32>> {
        let h = x.matmul(x)?;
        let h = if first { &h } else { &self.half };
        //~ ^ here
        h.matmul(x)
    }
}

fn main() {}
