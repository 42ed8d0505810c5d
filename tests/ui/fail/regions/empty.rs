//~ error: autocast needs a precision
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!()
    //~ ^ here
}

fn main() {}
