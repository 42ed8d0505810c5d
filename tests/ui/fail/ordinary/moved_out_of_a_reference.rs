//~ error: cannot move out of `*x` which is behind a shared reference
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    fc.forward(*x)?.relu()
    //~ ^ here
}

fn main() {}
