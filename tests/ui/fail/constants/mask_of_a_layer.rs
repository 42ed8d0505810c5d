//~ error: `-1e9` does not fit in `f16`
use amp::{nn::Linear, prelude::*};

#[autocast(f16)]
pub fn f(layer: &Linear, x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let h = layer.forward(x)?;
    mask.where_(&h, -1e9)?.softmax(-1)
    //~ ^ here
}

fn main() {}
