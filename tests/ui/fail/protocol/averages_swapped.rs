//~ error: `swap` does not belong inside an autocast region
use amp::optim::Ema;
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(ema: &mut Ema, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    ema.swap()?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
