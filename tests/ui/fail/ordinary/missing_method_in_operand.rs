//~ error: no method named `softplusx` found for struct `amp::Tensor<P>`
//! A method that does not exist, beside an operator.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let y = h.softplusx()? + x;
    //~ ^ here
    y?.relu()
}

fn main() {}
