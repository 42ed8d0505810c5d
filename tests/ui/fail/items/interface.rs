//~ error: `#[autocast]` goes on a function, not on a trait
use amp::prelude::*;

#[autocast(f16)]
pub trait Layer {
//~ ^ here
    fn forward(&self);
}

fn main() {}
