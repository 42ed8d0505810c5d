//~ error: a `lower` operation takes tensors of the region
use amp::prelude::*;

#[amp_op(lower)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
//~ ^ here
    x.relu()
}

fn main() {}
