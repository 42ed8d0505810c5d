//~ error: `P` is not known to be a precision that autocast can use
use amp::prelude::*;

#[autocast(P)]
pub fn f<P: Float>(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>>
//~ ^ here
where
    P: Send + 'static,
{
    x.matmul(w)
}

fn main() {}
