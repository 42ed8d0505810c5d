//~ error: `f32::MIN / 2.0` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    x.matmul(w)?.masked_fill(mask, f32::MIN / 2.0)
    //~ ^ here
}

fn main() {}
