//~ error: this `BF16` tensor meets `F16`
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    fc.forward(&x.to::<BF16>()?)
    //~ ^ here
}

fn main() {}
