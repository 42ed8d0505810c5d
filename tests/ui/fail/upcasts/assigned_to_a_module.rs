//~ error: this cast to `F32` would be undone by a `lower` module
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, fc: &Linear) -> Result<Tensor<F32>> {
    let mut p = x.clone();
    p = p.to::<F32>()?;
    fc.forward(&p)
    //~ ^ here
}

fn main() {}
