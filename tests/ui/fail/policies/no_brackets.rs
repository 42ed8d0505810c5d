//~ error: `full` takes a list of operations in brackets
use amp::prelude::*;

amp_policy! {
    pub mine { full: gelu }
    //~ ^ here
}

fn main() {}
