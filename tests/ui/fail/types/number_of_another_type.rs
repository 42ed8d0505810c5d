//~ error: `usize` cannot stand beside a tensor of `amp::F16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    x.matmul(x)? / n
    //~ ^ here
}

fn main() {}
