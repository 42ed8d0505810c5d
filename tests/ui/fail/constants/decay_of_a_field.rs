//~ error: `0.999` becomes exactly 1 in `bf16`
use amp::prelude::*;

pub struct Average {
    square: Tensor<BF16>,
}

#[autocast(bf16)]
pub fn f(average: &Average) -> Result<Tensor<BF16>> {
    &average.square * 0.999
    //~ ^ here
}

fn main() {}
