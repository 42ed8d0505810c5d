//~ error: `binary_cross_entropy` must run in `F32`, and on logits: use `bce_with_logits`
use amp::prelude::*;

pub fn f(z: &Tensor<F16>, t: &Tensor<F16>) -> Result<Tensor<F16>> {
    z.sigmoid()?.binary_cross_entropy(t)
    //~ ^ here
}

fn main() {}
