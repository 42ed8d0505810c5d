//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

pub struct Net {
    scores: Tensor<F32>,
    mask: Tensor<Bool>,
}

#[autocast(f16)]
pub fn f(net: &Net, w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let all = [net.mask.to::<F32>()?, net.scores.to::<F32>()?];
    all.iter().map(|h| h.matmul(w)).collect()
    //~ ^ here
}

fn main() {}
