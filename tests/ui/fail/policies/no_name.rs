//~ error: a policy needs a name
use amp::prelude::*;

amp_policy! {
    { full: [gelu] }
    //~ ^ here
}

fn main() {}
