//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mask = Some(-1e9);
    x.matmul(w)? + mask.unwrap()
    //~ ^ here
}

fn main() {}
