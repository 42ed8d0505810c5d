//~ error: `half` is not a precision
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(half, x.matmul(w))
    //~ ^ here
}

fn main() {}
