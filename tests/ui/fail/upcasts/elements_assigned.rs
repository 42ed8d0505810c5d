//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut all = vec![x.clone()];
    for h in &mut all {
        *h = h.matmul(w)?.to::<F32>()?;
    }
    all[0].matmul(w)
    //~ ^ here
}

fn main() {}
