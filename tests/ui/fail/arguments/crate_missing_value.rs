//~ error: `crate` needs a value
use amp::prelude::*;

#[autocast(f16, crate)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
