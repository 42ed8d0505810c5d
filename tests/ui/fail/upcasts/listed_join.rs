//~ error: this cast to `F32` would be undone by `cat`
use amp::prelude::*;

#[autocast(f16, lower(cat))]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.to::<F32>()?;
    Tensor::cat(&[w, &h], 0)
    //~ ^ here
}

fn main() {}
