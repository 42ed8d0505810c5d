//~ error: `1.0 / 1e9` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)? * (1.0 / 1e9)
    //~ ^ here
}

fn main() {}
