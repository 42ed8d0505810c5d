//~ error: borrow of moved value: `owned`
//! A tensor that a closure gives away before it uses it.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, owned: Tensor<F32>) -> Result<Tensor<F32>> {
    let narrow = |t: &Tensor<F32>| {
        drop(owned);
        t.matmul(&owned)
        //~ ^ here
    };
    narrow(x)
}

fn main() {}
