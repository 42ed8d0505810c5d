//~ error: `full` takes names of operations
use amp::prelude::*;

#[autocast(f16, full("gelu"))]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
