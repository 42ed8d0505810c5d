//~ error: expected `,` between the classes
use amp::prelude::*;

amp_policy! {
    pub mine { full: [gelu] lower: [silu] }
    //~ ^ here
}

fn main() {}
