//~ error: this `F32` value would be narrowed here
use amp::{nn::LayerNorm, prelude::*};

fn scaled(x: &Tensor<F16>) -> Result<Tensor<F16>> {
    x * 2.0
}

#[autocast(f16)]
fn forward(norm: &LayerNorm, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = norm.forward(x)?;
    scaled(&y)
    //~ ^ here
}

fn main() {}
