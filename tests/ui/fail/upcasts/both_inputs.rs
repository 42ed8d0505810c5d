//~ error: this cast to `F32` would be undone by a `lower` module
use amp::nn::Gru;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, gru: &Gru) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?.to::<F32>()?;
    let (y, _) = gru.forward_from(&h, &x.matmul(w)?.to::<F32>()?)?;
    //~ ^ here
    y.exp()
}

fn main() {}
