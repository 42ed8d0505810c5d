//~ error: a weight of `1e-4` changes nothing in `f16`
use amp::{nn::Linear, prelude::*};

#[autocast(f16)]
pub fn average(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    h.lerp(&fc.forward(x)?, 1e-4)
    //~ ^ here
}

fn main() {}
