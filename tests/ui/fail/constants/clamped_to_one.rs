//~ error: `0.99999` becomes exactly 1 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let p = x.matmul(x)?.sigmoid()?;
    p.clamp(1e-4, 0.99999)?.neg()?.log1p()
    //~ ^ here
}

fn main() {}
