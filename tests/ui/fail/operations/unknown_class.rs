//~ error: `half` is not a class of operations
use amp::prelude::*;

#[amp_op(half)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
