//~ error: no method named `matmul` found
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = x.matmul(w)?;
    y.softmax(-1).matmul(w)
    //~ ^ here
}

fn main() {}
