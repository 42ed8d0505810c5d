//~ error: `#[autocast]` cannot go on an `extern` function
use amp::prelude::*;

#[autocast(f16)]
pub extern "C" fn f(n: u32) -> u32 {
//~ ^ here
    n
}

fn main() {}
