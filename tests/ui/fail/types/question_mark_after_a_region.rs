//~ error: the `?` operator can only be applied to values that implement `Try`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = amp_region!(bf16, x.relu()?)?;
    //~ ^ here
    Ok(y)
}

fn main() {}
