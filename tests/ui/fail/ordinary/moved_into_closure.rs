//~ error: borrow of moved value: `owned`
//! A tensor that a closure owns.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, owned: Tensor<F32>) -> Result<Tensor<F32>> {
    let narrow = move |t: &Tensor<F32>| t.matmul(&owned);
    let a = x.matmul(&owned)?;
    //~ ^ here
    narrow(&a)
}

fn main() {}
