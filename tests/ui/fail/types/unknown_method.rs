//~ error: no method named `matmull` found
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmull(w)
    //~ ^ here
}

fn main() {}
