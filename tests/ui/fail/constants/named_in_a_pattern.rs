//~ error: `EPS` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, eps: Option<f64>) -> Result<Tensor<F32>> {
    const EPS: f64 = 1e-8;
    let h = x.matmul(x)?;
    match eps {
        Some(EPS) => h + EPS,
        //~ ^ here
        _ => h + 1.0,
    }
}

fn main() {}
