//~ error: this cast to `F32` would be undone by `softmax`
use amp::prelude::*;

#[autocast(f16, force_lower(softmax))]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?.to::<F32>()?;
    h.softmax(-1)
    //~ ^ here
}

fn main() {}
