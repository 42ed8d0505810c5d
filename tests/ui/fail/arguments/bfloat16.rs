//~ error: `bfloat16` is not a precision
use amp::prelude::*;

#[autocast(bfloat16)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)
}

fn main() {}
