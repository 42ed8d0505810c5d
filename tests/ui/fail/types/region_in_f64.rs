//~ error: is not a precision that autocast can use
use amp::prelude::*;

#[autocast(P)]
pub fn f<P: AutocastPrecision>(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)
}

pub fn g(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    f::<F64>(x)
    //~ ^ here
}

fn main() {}
