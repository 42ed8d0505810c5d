//~ error: this `F32` value would be narrowed to `P` on return
use amp::prelude::*;

#[autocast(P)]
pub fn f<P: AutocastPrecision>(x: &Tensor<F32>) -> Result<Tensor<P>> {
    x.exp()
    //~ ^ here
}

fn main() {}
