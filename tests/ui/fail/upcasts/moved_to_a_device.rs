//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let up = x.matmul(w)?.to::<F32>()?.to_device(x.device())?;
    up.tracked().matmul(w)
    //~ ^ here
}

fn main() {}
