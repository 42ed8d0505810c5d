//~ error: more costed casts than `max_casts = 0`
use amp::nn::{Linear, Silu};
use amp::prelude::*;

#[autocast(P, max_casts = 0)]
//~ ^ here
pub fn forward<P: AutocastPrecision>(act: &Silu, fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    fc.forward(&act.forward(x)?)
}

fn main() {}
