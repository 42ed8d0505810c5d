//~ error: cannot combine a `F16` tensor with a `F32` tensor
use amp::prelude::*;

pub fn f(x: &Tensor<F16>, y: &Tensor<F32>) -> Result<Tensor<F16>> {
    x + y
    //~ ^ here
}

fn main() {}
