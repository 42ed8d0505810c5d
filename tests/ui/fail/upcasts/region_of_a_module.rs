//~ error: this cast to `F32` would be undone by a `lower` module
use amp::nn::{Linear, Relu};
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, fc: &Linear, act: &Relu) -> Result<Tensor<F32>> {
    let logits = amp_region!(f32, { act.forward(&fc.forward(x)?)? });
    fc.forward(&logits)
    //~ ^ here
}

fn main() {}
