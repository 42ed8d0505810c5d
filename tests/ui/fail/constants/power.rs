//~ error: `10f64.powi(-8)` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(w)? + 10f64.powi(-8)
    //~ ^ here
}

fn main() {}
