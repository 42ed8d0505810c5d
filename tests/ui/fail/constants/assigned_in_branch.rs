//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>, hard: bool) -> Result<Tensor<F32>> {
    let mut fill = -1e3;
    if hard {
        fill = -1e9;
    }
    x.matmul(x)?.masked_fill(mask, fill)?.softmax(-1)
    //~ ^ here
}

fn main() {}
