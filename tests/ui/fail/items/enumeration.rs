//~ error: `#[autocast]` goes on a function, not on an enum
use amp::prelude::*;

#[autocast(f16)]
pub enum Kind {
//~ ^ here
    One,
}

fn main() {}
