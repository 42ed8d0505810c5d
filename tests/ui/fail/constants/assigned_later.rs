//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>, fills: &[f64]) -> Result<Tensor<F32>> {
    let fill;
    if fills.is_empty() {
        fill = -1e9;
    } else {
        fill = fills[0];
    }
    x.matmul(x)?.masked_fill(mask, fill)?.softmax(-1)
    //~ ^ here
}

fn main() {}
