//~ error: `skip` takes no value
use amp::prelude::*;

#[derive(Module)]
pub struct Net {
    #[module(skip = true)]
    //~ ^ here
    pub calls: usize,
}

fn main() {}
