//~ error: `#[autocast]` goes on a function, not on a struct
use amp::prelude::*;

#[autocast(f16)]
pub struct Net;
//~ ^ here

fn main() {}
