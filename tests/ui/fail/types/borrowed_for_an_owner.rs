//~ error: mismatched types
use amp::{nn::Linear, prelude::*};

fn owned(x: Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

#[autocast(bf16)]
pub fn f(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    owned(&fc.forward(x)?)
    //~ ^ here
}

fn main() {}
