//~ error: a tensor is never changed in place
use amp::prelude::*;

pub fn f(x: &Tensor<F32>) -> Tensor<F32> {
    let mut y = x.clone();
    y *= 2.0;
    //~ ^ here
    y
}

fn main() {}
