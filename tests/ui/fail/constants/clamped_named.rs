//~ error: `EPS` becomes 0 in `f16`
use amp::prelude::*;

const EPS: f64 = 1e-12;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)?.clamp_min(EPS)?.recip()
    //~ ^ here
}

fn main() {}
