//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let up = <Result<_>>::unwrap(x.matmul(w)?.to::<F32>());
    up.matmul(w)
    //~ ^ here
}

fn main() {}
