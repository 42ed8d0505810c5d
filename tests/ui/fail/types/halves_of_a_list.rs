//~ error: this `BF16` tensor meets `F16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>) -> Result<Tensor<F32>> {
    let pair = [x.matmul(x)?, b.clone()];
    //~ ^ here
    pair[0].matmul(&pair[1])
}

fn main() {}
