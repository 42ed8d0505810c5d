//~ error: type annotations needed
//! Only the call says what the closure is given, and the class of what takes it depends on that.

use amp::{nn::Linear, prelude::*};

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, first: &Linear) -> Result<Tensor<F32>> {
    let block = |h| first.forward(h);
    //~ ^ here
    block(x)
}

fn main() {}
