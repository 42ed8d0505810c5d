//~ error: a precision stands alone here
use amp::prelude::*;

#[autocast(device_type = "cuda", dtype = bfloat16)]
//~ ^ here
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(w)
}

fn main() {}
