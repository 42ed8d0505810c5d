//~ error: this `F32` value would be narrowed to `F16` on return
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(Tensor<F16>, Tensor<F16>)> {
    let h = x.matmul(w)?;
    let s = h.softmax(-1)?;
    Ok((h, s))
    //~ ^ here
}

fn main() {}
