//~ error: a `full` operation returns `F32` tensors, this one is `BF16`
use amp::prelude::*;

#[amp_op(full)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<BF16>> {
//~ ^ here
    x.to()
}

fn main() {}
