//~ error: cannot combine a `F16` tensor with a `I64` tensor
use amp::prelude::*;

pub fn f(h: &Tensor<F16>, ids: &Tensor<I64>) -> Result<Tensor<F16>> {
    h.hypot(ids)
    //~ ^ here
}

fn main() {}
