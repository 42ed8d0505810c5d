//~ error: `binary_cross_entropy` is unsafe under autocast in any class
use amp::prelude::*;

#[autocast(f16, keep(binary_cross_entropy))]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
