//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut wide = vec![x.clone(), x.matmul(w)?.to::<F32>()?];
    let tail = wide.split_off(1);
    tail[0].matmul(w)
    //~ ^ here
}

fn main() {}
