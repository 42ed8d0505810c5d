//~ error: mismatched types
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let n = 3usize;
    x.matmul(w)?.matmul(n)
    //~ ^ here
}

fn main() {}
