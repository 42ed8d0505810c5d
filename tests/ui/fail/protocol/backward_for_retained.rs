//~ error: `backward_for_retained` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, p: &Parameter) -> Result<()> {
    let loss = x.matmul(x)?.mean_all()?;
    loss.backward_for_retained(&[p.clone()])?;
    //~ ^ here
    Ok(())
}

fn main() {}
