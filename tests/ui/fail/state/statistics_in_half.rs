//~ error: mismatched types
use amp::nn::Statistics;
use amp::prelude::*;

pub fn f(mean: &Tensor<F16>) -> Statistics {
    Statistics::new(mean)
    //~ ^ here
}

fn main() {}
