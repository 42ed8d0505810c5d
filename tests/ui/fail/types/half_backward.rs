//~ error: `backward` starts from a loss in `F32`
use amp::prelude::*;

pub fn f(loss: &Tensor<F16>) -> Result<()> {
    loss.backward()?;
    //~ ^ here
    Ok(())
}

fn main() {}
