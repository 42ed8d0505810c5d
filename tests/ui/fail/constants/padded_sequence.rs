//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    Tensor::pad_sequence(&[&h, &h], -1e9)
    //~ ^ here
}

fn main() {}
