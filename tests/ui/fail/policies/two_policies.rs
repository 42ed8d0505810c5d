//~ error: unexpected token after the policy
use amp::prelude::*;

amp_policy! {
    pub one { full: [gelu] }
    pub two { full: [silu] }
    //~ ^ here
}

fn main() {}
