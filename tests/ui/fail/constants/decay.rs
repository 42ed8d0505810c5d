//~ error: `0.9999` becomes exactly 1 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    h * 0.9999
    //~ ^ here
}

fn main() {}
