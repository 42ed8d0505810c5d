//~ error: a tensor is never changed in place
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut h = x.clone();
    h += fc.forward(&h)?;
    //~ ^ here
    Ok(h)
}

fn main() {}
