//~ error: borrow of moved value: `h`
//! A variable beside an operator, which takes it.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.relu()?;
    let y = (x.matmul(w)? + h)?;
    y + &h
    //~ ^ here
}

fn main() {}
