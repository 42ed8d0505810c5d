//~ error: `keep` lists no operation
use amp::prelude::*;

#[autocast(f16, keep())]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
