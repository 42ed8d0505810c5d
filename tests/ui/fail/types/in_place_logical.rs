//~ error: a tensor is never changed in place
use amp::prelude::*;

pub fn f(mut mask: Tensor<Bool>, padding: Tensor<Bool>) -> Tensor<Bool> {
    mask &= padding;
    //~ ^ here
    mask
}

fn main() {}
