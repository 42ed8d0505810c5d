//~ error: no call of `prelu` here that this option could change
use amp::nn::PRelu;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(act: &PRelu, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(bf16, full(prelu), act.forward(x))
    //~ ^ here
}

fn main() {}
