//~ error: this `F16` tensor meets `BF16` in `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F16>, w: &Tensor<F16>) -> Result<Tensor<BF16>> {
    x.matmul(w)
    //~ ^ here
}

fn main() {}
