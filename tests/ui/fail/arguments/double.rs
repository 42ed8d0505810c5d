//~ error: `f64` is not a precision that autocast can use
use amp::prelude::*;

#[autocast(f64)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
