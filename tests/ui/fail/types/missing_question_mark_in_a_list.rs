//~ error: `cat` and `stack` join tensors, not `std::result::Result<
use amp::prelude::*;

pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    Tensor::cat(&[x.relu(), x.tanh()], 0)
    //~ ^ here
}

fn main() {}
