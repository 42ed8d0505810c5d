//~ error: `F16` and `BF16` tensors meet here
use amp::prelude::*;

pub struct Start {
    half: Tensor<BF16>,
}

impl Start {
    #[autocast(f16)]
    pub fn f(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let all = [x.matmul(x)?, x.matmul(x)?, self.half.clone()];
        //~ ^ here
        all[0].matmul(&all[2])
    }
}

fn main() {}
