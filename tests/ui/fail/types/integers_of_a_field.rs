//~ error: this module computes with floating-point numbers
//! What is given is known by its type only, and what the function returns is the module's result.
use amp::{nn::Conv2d, prelude::*};

pub struct Batch {
    pixels: Tensor<U8>,
}

#[autocast(bf16)]
pub fn forward(first: &Conv2d, batch: &Batch) -> Result<Tensor<F32>> {
    first.forward(&batch.pixels)
    //~ ^ here
}

fn main() {}
