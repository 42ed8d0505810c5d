//~ error: a precision is written in lower case here: `f16`
use amp::prelude::*;

#[autocast(F16)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
