//~ error: `1e-8` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let scales = vec![1.0, 1e-8];
    scales.iter().try_fold(x.matmul(w)?, |h, s| h + *s)
    //~ ^ here
}

fn main() {}
