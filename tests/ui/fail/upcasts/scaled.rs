//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?.to::<F32>()?;
    (h * 0.5)?.matmul(w)
    //~ ^ here
}

fn main() {}
