//~ error: `DECAY` becomes exactly 1 in `f16`
use amp::{nn::Linear, prelude::*};

const DECAY: f64 = 0.9999;

#[autocast(f16)]
pub fn f(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = fc.forward(x)?;
    h * DECAY
    //~ ^ here
}

fn main() {}
