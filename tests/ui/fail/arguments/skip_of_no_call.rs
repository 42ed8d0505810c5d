//~ error: no call of `softmax` here that this option could change
use amp::prelude::*;

pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(bf16, skip(softmax), { x.log_softmax(-1) })
    //~ ^ here
}

fn main() {}
