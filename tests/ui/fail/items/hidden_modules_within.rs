//~ error: the modules in a `Vec<(String, RefCell<Linear>)>` would not be trained, saved or switched
use amp::nn::Linear;
use amp::prelude::*;
use std::cell::RefCell;

#[derive(Module)]
enum Heads {
    None,
    Named(Vec<(String, RefCell<Linear>)>),
    //~ ^ here
}

fn main() {}
