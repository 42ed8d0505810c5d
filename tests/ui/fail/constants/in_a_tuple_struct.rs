//~ error: `1e-9` becomes 0 in `f16`
use amp::prelude::*;

pub struct Eps(f64);

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let eps = Eps(1e-9);
    x.matmul(x)? + eps.0
    //~ ^ here
}

fn main() {}
