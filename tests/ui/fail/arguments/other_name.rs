//~ error: `fp16` is not a precision
use amp::prelude::*;

#[autocast(fp16)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
