//~ error: `gelu` is listed twice
use amp::prelude::*;

#[autocast(f16, full(gelu), lower(gelu))]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
