//~ error: `MASK` does not fit in `f16`
use amp::prelude::*;

const MASK: f32 = -1e9;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    h.masked_fill(mask, MASK)
    //~ ^ here
}

fn main() {}
