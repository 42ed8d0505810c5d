//~ error: this module is given a `Result`, not a tensor
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.relu()?;
    fc.forward(&fc.forward(&h))
    //~ ^ here
}

fn main() {}
