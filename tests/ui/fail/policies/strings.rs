//~ error: `full` takes names of operations
use amp::prelude::*;

amp_policy! {
    pub mine { full: ["gelu"] }
    //~ ^ here
}

fn main() {}
