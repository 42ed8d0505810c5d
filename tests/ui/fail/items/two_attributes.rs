//~ error: this function has two `#[autocast]` attributes
use amp::prelude::*;

#[autocast(f16)]
#[autocast(bf16)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
