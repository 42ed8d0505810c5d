//~ error: the modules in a `HashMap<String, Linear>` would not be trained, saved or switched
use amp::nn::Linear;
use amp::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;

#[derive(Module)]
struct Heads {
    named: HashMap<String, Linear>,
    //~ ^ here
    #[module(skip)]
    teacher: RefCell<Linear>,
}

fn main() {}
