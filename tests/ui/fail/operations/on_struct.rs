//~ error: `#[amp_op]` goes on a function, not on a struct
use amp::prelude::*;

#[amp_op(full)]
pub struct Norm;
//~ ^ here

fn main() {}
