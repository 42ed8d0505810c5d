//~ error: `softmax` must run in `F32`
use amp::prelude::*;

pub fn f(x: &Tensor<BF16>) -> Result<Tensor<BF16>> {
    x.softmax(-1)
    //~ ^ here
}

fn main() {}
