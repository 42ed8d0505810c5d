//~ error: `-1e39` does not fit in `bf16`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)? + -1e39
    //~ ^ here
}

fn main() {}
