//~ error: the modules in a `Vec<Block>` would not be trained, saved or switched
//! A struct of modules that does not derive `Module` itself: nothing else would say that its parameters stay as they are.
use amp::{nn::Linear, prelude::*};

struct Block {
    up: Linear,
    down: Linear,
}

#[derive(Module)]
struct Net {
    head: Linear,
    blocks: Vec<Block>,
    //~     ^ here
}

fn main() {}
