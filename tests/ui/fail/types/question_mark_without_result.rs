//~ error: the `?` operator can only be used in a function that returns `Result` or `Option`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Tensor<F32> {
    x.matmul(w)?
    //~ ^ here
}

fn main() {}
