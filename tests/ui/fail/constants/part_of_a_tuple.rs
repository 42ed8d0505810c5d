//~ error: `PAIR.0` becomes 0 in `f16`
use amp::prelude::*;

const PAIR: (f64, f64) = (1e-8, 1.0);

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (eps, _) = PAIR;
    //~ ^ here
    x.matmul(x)? + eps
}

fn main() {}
