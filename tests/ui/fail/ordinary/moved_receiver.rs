//~ error: borrow of moved value: `owned`
//! A tensor before the dot that was given away since it was cast.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, owned: Tensor<F32>) -> Result<Tensor<F32>> {
    let a = owned.matmul(x)?;
    drop(owned);
    owned.matmul(&a)
    //~ ^ here
}

fn main() {}
