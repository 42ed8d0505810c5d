//~ error: key-value macro attributes are not supported
use amp::prelude::*;

#[autocast = "f16"]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
