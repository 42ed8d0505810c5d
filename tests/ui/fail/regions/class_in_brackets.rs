//~ error: `full` takes a list of operations
use amp::prelude::*;

pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f16, full[exp], { x.matmul(x)?.exp()? }).to()
    //~ ^ here
}

fn main() {}
