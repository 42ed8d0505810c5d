//~ error: `1e-8` becomes 0 in `f16`
use amp::{nn::Linear, prelude::*};

#[autocast(f16)]
pub fn f(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    layer.forward(x)? + 1e-8
    //~ ^ here
}

fn main() {}
