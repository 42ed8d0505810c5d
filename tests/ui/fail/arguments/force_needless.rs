//~ error: `matmul` is not a `full` operation, so nothing has to be forced
use amp::prelude::*;

#[autocast(f16, force_lower(matmul))]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
