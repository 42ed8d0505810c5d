//~ error: cannot combine a `F16` tensor with a `BF16` tensor
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>) -> Result<Tensor<F32>> {
    let mut sum = x.matmul(x)?;
    for _ in 0..3 {
        sum = (sum + b)?;
        //~ ^ here
    }
    Ok(sum)
}

fn main() {}
