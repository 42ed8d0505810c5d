//~ error: `f32::MIN` does not fit in `bf16`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    h.masked_fill(mask, f32::MIN)
    //~ ^ here
}

fn main() {}
