//~ error: `1e-9` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16, lower(add))]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x + 1e-9
    //~ ^ here
}

fn main() {}
