//~ error: `#[autocast]` goes on a function, not on a macro call
use amp::prelude::*;

mod made {
    macro_rules! constant {
        ($name:ident) => {
            pub const $name: f64 = 0.5;
        };
    }
    pub(crate) use constant;
}

#[autocast(f16)]
made::constant!(HALF);
//~ ^ here

fn main() {}
