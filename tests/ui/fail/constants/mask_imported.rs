//~ error: `-1e9` does not fit in `f16`
pub use amp::Fill::Value;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let scores = x.matmul(x)?;
    scores.masked_fill(mask, Value(-1e9))?.softmax(-1)
    //~ ^ here
}

fn main() {}
