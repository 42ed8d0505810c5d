//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let scores = x.matmul(w)?;
    mask.where_(&scores, -1e9)
    //~ ^ here
}

fn main() {}
