//~ error: this `F32` value would be narrowed to `F16` in `p`
use amp::{nn::Linear, prelude::*};

#[autocast(f16)]
pub fn f(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F16>> {
    let p: Tensor<F16> = fc.forward(x)?.softmax(-1)?;
    //~ ^ here
    p.matmul(&p)
}

fn main() {}
