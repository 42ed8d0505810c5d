//~ error: `#[autocast]` goes on a function, not on an extern block
use amp::prelude::*;

#[autocast(f16)]
unsafe extern "C" {
    //~ ^ here
    fn sine(x: f64) -> f64;
}

fn main() {}
