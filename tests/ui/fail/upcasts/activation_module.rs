//~ error: this cast to `F32` would be undone
use amp::nn::{Dropout, Linear, Relu};
use amp::prelude::*;

#[autocast(f16)]
pub fn f(relu: &Relu, drop: &Dropout, fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = fc.forward(x)?.to::<F32>()?;
    let h = drop.forward(&relu.forward(&h)?)?;
    fc.forward(&h)
    //~ ^ here
}

fn main() {}
