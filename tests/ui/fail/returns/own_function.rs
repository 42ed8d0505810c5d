//~ error: this `F32` value would be narrowed here
use amp::{nn::LayerNorm, prelude::*};

fn kernel<P: AutocastPrecision>(x: Tensor<P>, _like: &Tensor<P>) -> Result<Tensor<P>> {
    x.relu()
}

#[autocast(P)]
pub fn f<P: AutocastPrecision>(norm: &LayerNorm, x: &Tensor<F32>) -> Result<Tensor<P>> {
    kernel::<P>(norm.forward(x)?, &x.to::<P>()?)
    //~ ^ here
}

fn main() {}
