//~ error: expected `,`
use amp::prelude::*;

#[autocast(f16 enabled = true)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
