//~ error: this cast to `F32` would be undone
use amp::prelude::*;

pub struct Net {
    scores: Tensor<F32>,
}

#[autocast(f16)]
pub fn f(net: &Net, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let exact: Tensor<F32> = net.scores.transpose(0, 1)?.to()?;
    exact.matmul(w)
    //~ ^ here
}

fn main() {}
