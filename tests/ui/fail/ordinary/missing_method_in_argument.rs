//~ error: no method named `foo` found for reference `&amp::Tensor<amp::F32>`
//! A method that does not exist, within an operation.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(&w.foo()?)
    //~ ^ here
}

fn main() {}
