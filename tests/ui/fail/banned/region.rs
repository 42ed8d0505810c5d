//~ error: `binary_cross_entropy` is unsafe under autocast
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f16, x.matmul(w)?.sigmoid()?.binary_cross_entropy(x))
    //~ ^ here
}

fn main() {}
