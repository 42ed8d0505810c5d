//~ error: `LOWEST` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    const LOWEST: f32 = -1e9;
    let scores = x.matmul(x)?;
    scores.masked_fill(mask, LOWEST)?.softmax(-1)
    //~ ^ here
}

fn main() {}
