//~ error: `#[autocast]` goes on a function, not on a type alias
use amp::prelude::*;

#[autocast(f16)]
pub type Wide = Tensor<F32>;
//~ ^ here

fn main() {}
