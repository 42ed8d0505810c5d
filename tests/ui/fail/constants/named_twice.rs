//~ error: `2.0 * EPS` becomes 0 in `f16`
use amp::prelude::*;

const EPS: f64 = 1e-8;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)? + 2.0 * EPS
    //~ ^ here
}

fn main() {}
