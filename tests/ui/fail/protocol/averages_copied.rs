//~ error: `copy_to` does not belong inside an autocast region
use amp::optim::Ema;
use amp::{nn::Linear, prelude::*};

#[autocast(bf16)]
pub fn f(ema: &Ema, target: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    ema.copy_to(target.parameters())?;
    //~ ^ here
    target.forward(x)
}

fn main() {}
