//~ error: `F16` and `BF16` tensors meet here
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>) -> Result<Tensor<F32>> {
    let all = [(x.matmul(x)?, 1), (b.clone(), 2)];
    //~ ^ here
    all[0].0.matmul(&all[1].0)
}

fn main() {}
