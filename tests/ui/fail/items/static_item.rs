//~ error: `#[autocast]` goes on a function, not on a static
use amp::prelude::*;

#[autocast(f16)]
pub static N: usize = 1;
//~ ^ here

fn main() {}
