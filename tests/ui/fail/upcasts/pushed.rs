//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut list = Vec::new();
    list.push(x.to::<F32>()?);
    list[0].matmul(w)
    //~ ^ here
}

fn main() {}
