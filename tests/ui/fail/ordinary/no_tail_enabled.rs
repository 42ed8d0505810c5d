//~ error: mismatched types
use amp::prelude::*;

#[autocast(f16, enabled = x.rank() == 2)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    //~ ^ here
    let h = x.matmul(w)?;
    h.relu()?;
}

fn main() {}
