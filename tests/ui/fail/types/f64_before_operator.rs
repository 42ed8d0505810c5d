//~ error: cannot combine this tensor with a `F16` tensor in `+`
use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>, noise: Tensor<F64>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    noise + h
    //~ ^ here
}

fn main() {}
