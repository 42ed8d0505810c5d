//~ error: `#[autocast]` goes on a function, not on a constant
use amp::prelude::*;

#[autocast(f16)]
pub const N: usize = 1;
//~ ^ here

fn main() {}
