//~ error: `1 << 20` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)? + (1 << 20) as f32
    //~ ^ here
}

fn main() {}
