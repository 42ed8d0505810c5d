//~ error: `fast` is not a class of operations
use amp::prelude::*;

amp_policy! {
    pub mine { fast: [gelu] }
    //~ ^ here
}

fn main() {}
