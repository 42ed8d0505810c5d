//~ error: `EPS` becomes 0 in `f16`
use amp::prelude::*;

const EPS: f64 = 1e-8;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, training: bool) -> Result<Tensor<F32>> {
    let eps = if training {
        1e-3
    } else {
        EPS
        //~ ^ here
    };
    x.matmul(x)? + eps
}

fn main() {}
