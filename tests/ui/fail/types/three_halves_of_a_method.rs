//~ error: cannot combine a `F16` tensor with a `BF16` tensor
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    h.addcmul(b, &h, 1e-4)
    //~ ^ here
}

fn main() {}
