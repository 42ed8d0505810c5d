//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let masks = [0.0, -1e9];
    x.matmul(w)? + masks[1]
    //~ ^ here
}

fn main() {}
