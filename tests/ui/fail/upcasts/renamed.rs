//~ error: this cast to `F32` would be undone
use amp::prelude::*;
use amp::F32 as Full;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.exp()?.to::<Full>()?;
    x.matmul(&h)
    //~ ^ here
}

fn main() {}
