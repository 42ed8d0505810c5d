//~ error: this `F32` value would be narrowed to `F16` on return
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F16>> {
    let mut h = x.clone();
    for _ in 0..2 {
        h = h.matmul(w)?;
    }
    Ok(h)
    //~ ^ here
}

fn main() {}
