//~ error: this `F32` value would be narrowed here
use amp::{nn::LayerNorm, prelude::*};

fn first(all: &[Tensor<F16>]) -> &Tensor<F16> {
    &all[0]
}

#[autocast(f16)]
fn forward(norm: &LayerNorm, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let all = vec![norm.forward(x)?];
    first(&all).relu()
    //~ ^ here
}

fn main() {}
