//~ error: a region needs a body
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f16)
    //~ ^ here
}

fn main() {}
