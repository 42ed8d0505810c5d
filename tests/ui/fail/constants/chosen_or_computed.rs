//~ error: `1e-12` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, options: &[f64], fixed: bool) -> Result<Tensor<F32>> {
    let eps = if fixed { 1e-12 } else { options[0] };
    x.matmul(w)?.div(&x.matmul(w)?.add(eps)?)
    //~ ^ here
}

fn main() {}
