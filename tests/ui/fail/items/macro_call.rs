//~ error: `#[autocast]` goes on a function, not on a macro call
use amp::prelude::*;

#[autocast(f16)]
amp_policy! { pub careful { full: [gelu] } }
//~ ^ here

fn main() {}
