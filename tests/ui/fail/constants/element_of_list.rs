//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut h = x.matmul(w)?;
    for mask in [0.0, -1e9] {
        h = (h + mask)?;
        //~ ^ here
    }
    Ok(h)
}

fn main() {}
