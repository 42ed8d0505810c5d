//~ error: this `F32` value would be narrowed to `F16` on return
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Option<Tensor<F16>>> {
    Ok(Some(x.log()?))
    //~ ^ here
}

fn main() {}
