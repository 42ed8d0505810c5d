//~ error: cannot combine a `F32` tensor with a `F64` tensor
use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, noise: &Tensor<F64>) -> Result<Tensor<F32>> {
    x.add(noise)
    //~ ^ here
}

fn main() {}
