//~ error: `?` operator has incompatible types
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h: Tensor<F32> = x.matmul(w)?.relu()?;
    //~ ^ here
    Ok(h)
}

fn main() {}
