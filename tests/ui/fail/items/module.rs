//~ error: `#[autocast]` goes on a function, not on a module
use amp::prelude::*;

#[autocast(f16)]
mod inner {
//~ ^ here
    pub fn f() {}
}

fn main() {}
