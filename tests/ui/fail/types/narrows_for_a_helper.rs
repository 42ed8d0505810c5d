//~ error: mismatched types
use amp::prelude::*;

fn helper(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.exp()
}

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    helper(&h)
    //~ ^ here
}

fn main() {}
