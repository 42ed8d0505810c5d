//~ error: a tensor is never changed in place
use amp::prelude::*;

pub fn f<P: Float>(x: &Tensor<P>, y: Tensor<P>) -> Tensor<P> {
    let mut h = x.clone();
    h -= y;
    //~ ^ here
    h
}

fn main() {}
