//~ error: `1e-8` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    amp_region!(f32, h + 1e-8)
    //~ ^ here
}

fn main() {}
