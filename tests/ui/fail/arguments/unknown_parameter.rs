//~ error: cannot find type `Q` in this scope
use amp::prelude::*;

#[autocast(Q)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
