//~ error: cannot combine this tensor with a `F32` tensor in `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, basis: &Tensor<F64>) -> Result<Tensor<F32>> {
    basis.matmul(x)?.softmax(-1)
    //~ ^ here
}

fn main() {}
