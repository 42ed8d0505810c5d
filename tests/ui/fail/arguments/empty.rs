//~ error: autocast needs a precision
use amp::prelude::*;

#[autocast()]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
