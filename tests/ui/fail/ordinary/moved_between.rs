//~ error: borrow of moved value: `owned`
//! A tensor that is given away between two uses, whose cast is shared.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, owned: Tensor<F32>) -> Result<Tensor<F32>> {
    let a = x.matmul(&owned)?;
    drop(owned);
    a.matmul(&owned)
    //~ ^ here
}

fn main() {}
