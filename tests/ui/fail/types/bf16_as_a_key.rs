//~ error: this `BF16` tensor meets `F16`
use amp::nn::MultiHeadAttention;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(attention: &MultiHeadAttention, q: &Tensor<F32>, k: &Tensor<BF16>, v: &Tensor<F32>) -> Result<Tensor<F32>> {
    attention.forward(q, k, v, None)
    //~ ^ here
}

fn main() {}
