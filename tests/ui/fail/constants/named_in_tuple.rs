//~ error: `EPS` becomes 0 in `f16`
use amp::prelude::*;

const EPS: f32 = 1e-8;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (scale, eps) = (2.0, EPS);
    //~ ^ here
    (x.matmul(x)? * scale)? + eps
}

fn main() {}
