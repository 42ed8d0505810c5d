//~ error: cannot combine a `P` tensor with a `amp::F32` tensor
use amp::prelude::*;

pub fn f<P: HalfPrecision>(x: &Tensor<P>, w: &Tensor<F32>) -> Result<Tensor<P>> {
    x + w
    //~ ^ here
}

fn main() {}
