//~ error: `f8` is not a precision
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = amp_region!(f8, x.matmul(w)?);
    //~ ^ here
    y.exp()
}

fn main() {}
