//~ error: `EPS` becomes 0 in `f16`
use amp::prelude::*;

const EPS: Option<f64> = Some(1e-9);

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let Some(eps) = EPS else { return Ok(h) };
    //~ ^ here
    h + eps
}

fn main() {}
