//~ error: a `full` operation takes `F32` tensors, this one is `F16`
use amp::prelude::*;

#[amp_op(full)]
pub fn f(x: &Tensor<F16>) -> Result<Tensor<F32>> {
//~ ^ here
    x.to()
}

fn main() {}
