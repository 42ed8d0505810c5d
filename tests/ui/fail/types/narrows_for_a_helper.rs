//~ error: mismatched types
use amp::prelude::*;

fn helper(x: &Tensor<F16>) -> Result<Tensor<F16>> {
    x.relu()
}

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?.softmax(-1)?;
    helper(&h)
    //~ ^ here
}

fn main() {}
