//~ error: `set` does not belong inside an autocast region
use amp::{nn::Linear, prelude::*};

#[autocast(f16)]
pub fn f(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    layer.weight().set(x)?;
    //~ ^ here
    layer.forward(x)
}

fn main() {}
