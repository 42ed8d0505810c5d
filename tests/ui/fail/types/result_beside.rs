//~ error: cannot stand beside a tensor of `amp::F32`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x + x.softmax(-1)
    //~ ^ here
}

fn main() {}
