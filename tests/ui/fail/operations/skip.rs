//~ error: `skip` is not a class of operations
use amp::prelude::*;

#[amp_op(skip)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
