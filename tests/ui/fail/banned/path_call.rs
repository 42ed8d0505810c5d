//~ error: `binary_cross_entropy` is unsafe under autocast
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let p = x.matmul(w)?.sigmoid()?;
    Tensor::binary_cross_entropy(&p, x)
    //~ ^ here
}

fn main() {}
