//~ error: cannot combine a `P` tensor with a `amp::F16` tensor
use amp::prelude::*;

#[autocast(f16)]
pub fn f<P: AutocastPrecision>(x: &Tensor<P>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.add(w.matmul(w)?)
    //~ ^ here
}

fn main() {}
