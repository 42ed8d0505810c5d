//~ error: type annotations needed
//! Only the call says what the closure is given, and the class of what takes it behind its first input depends on that.

use amp::{nn::Gru, prelude::*};

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, state: &Tensor<F32>, first: &Gru) -> Result<Tensor<F32>> {
    let step = |h| first.forward_from(x, h);
    //~ ^ here
    Ok(step(state)?.0)
}

fn main() {}
