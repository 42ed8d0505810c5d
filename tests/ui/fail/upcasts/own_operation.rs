//~ error: this cast to `F32` would be undone by `mix`
use amp::prelude::*;

#[amp_op(lower)]
pub fn mix<P: AutocastPrecision>(x: &Tensor<P>, w: &Tensor<P>) -> Result<Tensor<P>> {
    x.matmul(w)
}

#[autocast(f16, lower(mix))]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?.to::<F32>()?;
    mix(&h, w)
    //~ ^ here
}

fn main() {}
