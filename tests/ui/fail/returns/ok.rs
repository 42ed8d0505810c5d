//~ error: this `F32` value would be narrowed to `BF16` on return
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<BF16>> {
    let h = x.matmul(w)?;
    Ok(h.sum_all()?)
    //~ ^ here
}

fn main() {}
