//~ error: `1e-9` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, eps: Option<f64>) -> Result<Tensor<F32>> {
    x.matmul(x)? + eps.map_or_else(|| 1e-9, |eps| eps)
    //~ ^ here
}

fn main() {}
