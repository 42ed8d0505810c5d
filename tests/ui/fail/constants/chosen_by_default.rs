//~ error: `1e-12` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, eps: Option<f64>) -> Result<Tensor<F32>> {
    let y = x.matmul(w)?;
    y.div(&y.add(eps.unwrap_or(1e-12))?)
    //~ ^ here
}

fn main() {}
