//~ error: `verbose` is not an option of autocast
use amp::prelude::*;

#[autocast(f16, verbose = true)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
