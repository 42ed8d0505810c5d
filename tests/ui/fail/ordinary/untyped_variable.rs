//~ error: type annotations needed
//! A variable whose type is never said.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let scale = [0.5_f32, 0.25].iter().sum();
    //~ ^ here
    x.mul(scale)
}

fn main() {}
