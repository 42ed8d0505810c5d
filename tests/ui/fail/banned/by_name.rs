//~ error: `binary_cross_entropy` is unsafe under autocast
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, y: &Tensor<F32>) -> Result<Tensor<F32>> {
    let loss: fn(&Tensor<F32>, &Tensor<F32>) -> Result<Tensor<F32>> = Tensor::binary_cross_entropy;
    //~ ^ here
    loss(&x.matmul(w)?.sigmoid()?, y)
}

fn main() {}
