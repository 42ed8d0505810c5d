//~ error: mismatched types
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut h = x.matmul(w)?.relu()?;
    let _: &mut Tensor<F32> = &mut h;
    //~ ^ here
    Ok(h)
}

fn main() {}
