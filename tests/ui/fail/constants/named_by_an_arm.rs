//~ error: `EPS` becomes 0 in `f16`
use amp::prelude::*;

const EPS: f64 = 1e-8;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, eps: f64) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    match eps {
        EPS => h + EPS,
        //~ ^ here
        _ => h + 1.0,
    }
}

fn main() {}
