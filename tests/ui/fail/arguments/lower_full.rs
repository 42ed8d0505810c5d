//~ error: `exp` needs the range of `F32`
use amp::prelude::*;

#[autocast(f16, lower(exp))]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
