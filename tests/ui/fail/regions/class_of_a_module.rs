//~ error: no call of `gelu` here that this option could change
use amp::nn::Gelu;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(act: &Gelu, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(bf16, full(gelu), act.forward(x))
    //~ ^ here
}

fn main() {}
