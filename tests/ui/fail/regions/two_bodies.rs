//~ error: unexpected token after the region
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f16, { x.relu() } { w.relu() })
    //~ ^ here
}

fn main() {}
