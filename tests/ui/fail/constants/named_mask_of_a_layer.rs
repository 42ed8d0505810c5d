//~ error: `NEG` does not fit in `f16`
use amp::{nn::Linear, prelude::*};

const NEG: f32 = -1e9;

#[autocast(f16)]
pub fn f(layer: &Linear, x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    mask.where_(&layer.forward(x)?, NEG)?.softmax(-1)
    //~ ^ here
}

fn main() {}
