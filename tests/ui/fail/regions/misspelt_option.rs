//~ error: `enable` is not an option of autocast
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, on: bool) -> Result<Tensor<F32>> {
    amp_region!(f16, enable = on, { x.matmul(x)? }).to()
    //~ ^ here
}

fn main() {}
