//~ error: the trait bound `amp::Tensor<_>: Default` is not satisfied
//! An argument that has whatever type is asked of it.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(&Default::default())
    //~ ^ here
}

fn main() {}
