//~ error: `1e-8` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let p = x.matmul(w)?.sigmoid()?;
    (1e-8 + p)?.log()
    //~ ^ here
}

fn main() {}
