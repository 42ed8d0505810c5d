//~ error: `backward` does not belong inside an autocast region
use amp::{nn::Linear, prelude::*};

#[autocast(f16)]
pub fn f(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = layer.forward(x)?.mean_all()?;
    Tensor::backward(&y)?;
    //~ ^ here
    Ok(y)
}

fn main() {}
