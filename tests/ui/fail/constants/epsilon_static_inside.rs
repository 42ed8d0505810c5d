//~ error: `EPSILON` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    static EPSILON: f64 = 1e-8;
    x.matmul(x)? + EPSILON
    //~ ^ here
}

fn main() {}
