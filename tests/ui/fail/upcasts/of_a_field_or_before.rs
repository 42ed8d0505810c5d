//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

pub struct Net {
    scores: Tensor<F32>,
    mask: Tensor<Bool>,
}

#[autocast(f16)]
pub fn f(net: &Net, w: &Tensor<F32>, exact: bool) -> Result<Tensor<F32>> {
    let mut h = net.scores.to::<F32>()?;
    if !exact {
        h = net.mask.to::<F32>()?;
    }
    h.matmul(w)
    //~ ^ here
}

fn main() {}
