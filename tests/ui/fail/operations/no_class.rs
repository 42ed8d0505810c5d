//~ error: `#[amp_op]` needs a class
use amp::prelude::*;

#[amp_op]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
