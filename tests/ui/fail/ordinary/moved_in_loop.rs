//~ error: borrow of moved value: `owned`
//! A tensor that a loop gives away.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, owned: Tensor<F32>) -> Result<Tensor<F32>> {
    let mut h = x.relu()?;
    for _ in 0..2 {
        h = h.matmul(&owned)?;
        //~ ^ here
        drop(owned);
    }
    Ok(h)
}

fn main() {}
