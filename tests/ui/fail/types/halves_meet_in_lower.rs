//~ error: this `BF16` tensor meets `F16` in `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<BF16>) -> Result<Tensor<F32>> {
    x.matmul(w)
    //~ ^ here
}

fn main() {}
