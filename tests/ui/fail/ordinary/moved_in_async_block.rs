//~ error: borrow of moved value: `owned`
//! A tensor that an async block gives away.

use amp::prelude::*;

#[autocast(f16)]
pub async fn forward(x: &Tensor<F32>, owned: Tensor<F32>) -> Result<Tensor<F32>> {
    let later = async {
        let a = x.matmul(&owned)?;
        drop(owned);
        a.matmul(&owned)
        //~ ^ here
    };
    later.await
}

fn main() {}
