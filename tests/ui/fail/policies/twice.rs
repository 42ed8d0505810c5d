//~ error: `gelu` is listed twice
use amp::prelude::*;

amp_policy! {
    pub mine { full: [gelu], lower: [gelu] }
    //~ ^ here
}

fn main() {}
