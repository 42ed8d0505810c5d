//~ error: expected a precision first
use amp::prelude::*;

#[autocast(enabled = true)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
