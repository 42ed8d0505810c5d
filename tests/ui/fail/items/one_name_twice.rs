//~ error: two fields of this module are called `head`
use amp::nn::Linear;
use amp::prelude::*;

#[derive(Module)]
pub struct Net {
    #[module(name = "head")]
    body: Linear,
    head: Linear,
    //~ ^ here
}

fn main() {}
