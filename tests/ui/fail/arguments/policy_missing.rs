//~ error: cannot find macro `nope` in this scope
use amp::prelude::*;

#[autocast(f16, policy = nope)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
