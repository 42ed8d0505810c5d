//~ error: `1e-8` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let [scale, .., eps] = [1.0, 1e-9, 2.0, 1e-8];
    let h = (x.matmul(w)? * scale)?;
    h + eps
}

fn main() {}
