//~ error: this cast to `F32` would be undone
use amp::nn::Gru;
use amp::prelude::*;

pub struct Batch {
    mask: Tensor<Bool>,
    scores: Tensor<F32>,
}

#[autocast(f16)]
pub fn f(batch: &Batch, gru: &Gru) -> Result<Tensor<F32>> {
    let (mask, scores) = (batch.mask.to::<F32>()?, batch.scores.to::<F32>()?);
    let (y, _) = gru.forward_from(&mask, &scores)?;
    //~ ^ here
    y.exp()
}

fn main() {}
