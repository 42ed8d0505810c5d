//~ error: this cast to `F32` would be undone by a `lower` module
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, fc: &Linear) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let h = h.to::<F32>()?;
    fc.forward(&h)
    //~ ^ here
}

fn main() {}
