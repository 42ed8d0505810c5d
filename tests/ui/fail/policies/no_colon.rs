//~ error: expected `:` after the class
use amp::prelude::*;

amp_policy! {
    pub mine { full [gelu] }
    //~ ^ here
}

fn main() {}
