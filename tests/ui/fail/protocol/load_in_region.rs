//~ error: `load` does not belong inside an autocast region
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    fc.load("weights.safetensors")?;
    //~ ^ here
    fc.forward(x)
}

fn main() {}
