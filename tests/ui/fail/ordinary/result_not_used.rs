//~ error: unused `std::result::Result` that must be used
#![deny(unused_must_use)]
use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(w);
    //~ ^ here
    x.relu()
}

fn main() {}
