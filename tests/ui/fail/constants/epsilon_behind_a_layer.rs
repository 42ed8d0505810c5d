//~ error: `1e-8` becomes 0 in `f16`
use amp::{nn::Linear, prelude::*};

#[autocast(f16)]
pub fn log_probability(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    (fc.forward(x)?.sigmoid()? + 1e-8)?.log()
    //~ ^ here
}

fn main() {}
