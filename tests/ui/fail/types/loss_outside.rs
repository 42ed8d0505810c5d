//~ error: `mse_loss` must run in `F32`
use amp::prelude::*;

pub fn f(x: &Tensor<F16>, y: &Tensor<F16>) -> Result<Tensor<F16>> {
    x.mse_loss(y)
    //~ ^ here
}

fn main() {}
