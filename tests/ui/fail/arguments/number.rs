//~ error: expected a precision first
use amp::prelude::*;

#[autocast(16)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
