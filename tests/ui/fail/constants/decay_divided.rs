//~ error: `0.999` becomes exactly 1 in `bf16`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)? / 0.999
    //~ ^ here
}

fn main() {}
