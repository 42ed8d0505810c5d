//~ error: `HIDDEN` does not fit in `f16`
use amp::prelude::*;

const HIDDEN: Fill = Fill::Value(-1e9);

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    x.matmul(x)?.masked_fill(mask, HIDDEN)?.softmax(-1)
    //~ ^ here
}

fn main() {}
