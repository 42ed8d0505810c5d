//~ error: mismatched types
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    Tensor::cat(&[&h, b, &h], 0)
    //~ ^ here
}

fn main() {}
