//~ error: this `F32` value would be narrowed to `F16` on return
use amp::prelude::*;

#[autocast(f16, enabled = on)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, on: bool) -> Result<Tensor<F16>> {
    x.matmul(w)
    //~ ^ here
}

fn main() {}
