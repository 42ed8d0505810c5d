//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(inv: &Tensor<F32>, pos: &Tensor<F32>) -> Result<Tensor<F32>> {
    inv.to::<F32>()?.matmul(pos)
    //~ ^ here
}

fn main() {}
