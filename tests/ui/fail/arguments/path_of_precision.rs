//~ error: a precision is one word here
use amp::prelude::*;

#[autocast(amp::F16)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
