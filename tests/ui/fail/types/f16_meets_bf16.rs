//~ error: cannot combine a `F16` tensor with a `BF16` tensor
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F16>, y: &Tensor<BF16>) -> Result<Tensor<F32>> {
    x + y
    //~ ^ here
}

fn main() {}
