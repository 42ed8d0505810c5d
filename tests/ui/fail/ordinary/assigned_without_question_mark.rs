//~ error: mismatched types
//! The compiler shows the whole expression, and where the question mark belongs.
use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut h = x.clone();
    if h.dims()[0] > 1 {
        h = x.matmul(w);
        //~ ^ here
    }
    Ok(h)
}

fn main() {}
