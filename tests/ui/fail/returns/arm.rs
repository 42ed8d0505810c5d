//~ error: this `F32` value would be narrowed to `F16` on return
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, sharp: bool) -> Result<Tensor<F16>> {
    match sharp {
        true => x.softmax(-1),
    //~ ^ here
        false => x.matmul(w),
    }
}

fn main() {}
