//~ error: a precision is one word here
use amp::prelude::*;

#[autocast(torch::float16)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.exp()
}

fn main() {}
