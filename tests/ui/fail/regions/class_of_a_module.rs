//~ error: no call of `layer_norm` here that this option could change
use amp::nn::LayerNorm;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(norm: &LayerNorm, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(bf16, skip(layer_norm), norm.forward(x))
    //~ ^ here
}

fn main() {}
