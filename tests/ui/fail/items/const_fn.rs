//~ error: `#[autocast]` cannot go on a `const fn`
use amp::prelude::*;

#[autocast(f16)]
pub const fn f(n: usize) -> usize {
//~ ^ here
    n
}

fn main() {}
