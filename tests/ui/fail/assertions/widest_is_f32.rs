//~ error: this `F32` value would be narrowed to `F16` in `y`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let y: Tensor<F16> = (&h + x)?;
    //~ ^ here
    y.exp()
}

fn main() {}
