//~ error: unexpected token after the class
use amp::prelude::*;

#[amp_op(full, lower)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
