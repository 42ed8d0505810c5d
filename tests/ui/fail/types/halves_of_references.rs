//~ error: this `BF16` tensor meets `F16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let all = vec![&h, b];
    //~ ^ here
    Tensor::cat(&all, 0)
}

fn main() {}
