//~ error: this `BF16` tensor meets `F16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>) -> Result<Tensor<F32>> {
    let h = Some(x.matmul(x)?);
    let h = h.unwrap_or(b.clone());
    //~ ^ here
    h.matmul(x)
}

fn main() {}
