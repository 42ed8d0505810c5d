//~ error: this `F32` value would be narrowed here
use amp::{nn::LayerNorm, prelude::*};

#[autocast(f16)]
pub fn f(norm: &LayerNorm, x: &Tensor<F32>) -> Result<(Tensor<F16>, usize)> {
    let h = norm.forward(x)?;
    Ok((h, 3))
    //~ ^ here
}

fn main() {}
