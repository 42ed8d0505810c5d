//~ error: `policy` takes the path of an `amp_policy!`
use amp::prelude::*;

#[autocast(f16, policy = "cautious")]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
