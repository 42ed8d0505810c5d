//~ error: mismatched types
use amp::prelude::*;

#[autocast(f16, enabled = 1)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
