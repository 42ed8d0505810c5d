//~ error: there is no operation `sofmax`
use amp::prelude::*;

amp_policy! { pub ours { skip: [sofmax], lower: [run] } }
//~ ^ here

fn main() {}
