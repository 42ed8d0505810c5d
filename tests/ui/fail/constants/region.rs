//~ error: `1e-8` becomes 0 in `f16`
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = amp_region!(f16, x.matmul(w)? + 1e-8)?;
    //~ ^ here
    y.to()
}

fn main() {}
