//~ error: `binary_cross_entropy` is unsafe under autocast
use amp::prelude::*;

mod stats {
    pub fn binary_cross_entropy(p: f64, q: f64) -> f64 {
        -p * q.ln()
    }
}

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, all: &[f64]) -> Result<Tensor<F32>> {
    x.matmul(x)? * stats::binary_cross_entropy(all[0], 2.0)
    //~ ^ here
}

fn main() {}
