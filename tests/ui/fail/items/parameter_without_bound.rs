//~ error: `P` is not known to be a precision that autocast can use
use amp::prelude::*;

#[autocast(P)]
pub fn f<P>(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    //~ ^ here
    x.matmul(w)
}

fn main() {}
