//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut wide = vec![x.matmul(w)?.to::<F32>()?];
    let last = wide.last_mut().expect("one");
    last.matmul(w)
    //~ ^ here
}

fn main() {}
