//~ error: `max_cast` is not an option of autocast
use amp::prelude::*;

#[autocast(bf16, max_cast = 2)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)
}

fn main() {}
