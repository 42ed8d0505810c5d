//~ error: `OUTSIDE` does not fit in `f16`
use amp::prelude::*;

const OUTSIDE: f64 = -1e9;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)?.pad([1, 1], OUTSIDE)
    //~ ^ here
}

fn main() {}
