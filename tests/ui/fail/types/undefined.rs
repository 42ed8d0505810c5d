//~ error: cannot find value `y` in this scope
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(y)
    //~ ^ here
}

fn main() {}
