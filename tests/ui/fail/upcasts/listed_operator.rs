//~ error: this cast to `F32` would be undone by `+`
use amp::prelude::*;

#[autocast(f16, lower(add))]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.to::<F32>()?;
    h + w
    //~ ^ here
}

fn main() {}
