//~ error: this `F16` tensor meets `BF16`
use amp::nn::Conv2d;
use amp::prelude::*;

pub struct Stem {
    conv: Conv2d,
    image: Tensor<F16>,
}

#[autocast(bf16)]
pub fn f(stem: &Stem) -> Result<Tensor<F32>> {
    let y = stem.conv.forward(&stem.image)?;
    //~ ^ here
    y.relu()?.mean(-1, false)
}

fn main() {}
