//~ error: `std::f64::consts::PI * 1e6` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(w)? + std::f64::consts::PI * 1e6
    //~ ^ here
}

fn main() {}
