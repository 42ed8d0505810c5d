//~ error: this `BF16` tensor meets `F16`
use amp::prelude::*;

pub struct Attention {
    table: Tensor<BF16>,
}

impl Attention {
    #[autocast(f16)]
    pub fn f(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(&self.table)
        //~        ^ here
    }
}

fn main() {}
