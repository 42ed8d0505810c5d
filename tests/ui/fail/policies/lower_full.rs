//~ error: `softmax` needs the range of `F32`
use amp::prelude::*;

amp_policy! {
    pub mine { lower: [softmax] }
    //~ ^ here
}

fn main() {}
