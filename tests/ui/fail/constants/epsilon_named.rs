//~ error: `EPS` becomes 0 in `f16`
use amp::prelude::*;

const EPS: f32 = 1e-10;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    h + EPS
    //~ ^ here
}

fn main() {}
