//~ error: `fulll` is not an option of autocast
use amp::prelude::*;

pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f16, fulll(exp), { x.matmul(x)?.exp()? }).to()
    //~ ^ here
}

fn main() {}
