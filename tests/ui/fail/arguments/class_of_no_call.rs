//~ error: no call of `gelu` here that this option could change
use amp::prelude::*;

#[autocast(f16, full(gelu))]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)?.relu()
}

fn main() {}
