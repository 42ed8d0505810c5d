//~ error: the `?` operator can only be applied to values that implement `Try`
//! A question mark on what is no result, given to a module: the module is no second mistake.

use amp::nn::Linear;
use amp::prelude::*;

#[autocast(f16)]
pub fn forward(fc: &Linear, classes: usize) -> Result<Tensor<F32>> {
    fc.forward(&classes?)
    //~          ^^^^^^^^ here
}

fn main() {}
