//~ error: the rules of a policy stand in braces behind its name
use amp::prelude::*;

amp_policy! { mine: { full: [softmax] } }
//~ ^ here

fn main() {}
