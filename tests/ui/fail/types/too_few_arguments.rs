//~ error: this method takes 1 argument but 0 arguments were supplied
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(w)?.matmul()
    //~ ^ here
}

fn main() {}
