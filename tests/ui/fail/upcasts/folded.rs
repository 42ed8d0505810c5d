//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, ws: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    ws.iter().try_fold(x.clone(), |h, w| h.matmul(w)?.exp()?.to::<F32>())
    //~ ^ here
}

fn main() {}
