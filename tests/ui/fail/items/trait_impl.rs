//~ error: `#[autocast]` goes on a function, not on an impl block
use amp::prelude::*;

pub struct Net;

#[autocast(f16)]
impl Default for Net {
//~ ^ here
    fn default() -> Self {
        Net
    }
}

fn main() {}
