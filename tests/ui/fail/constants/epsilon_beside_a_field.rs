//~ error: `1e-8` becomes 0 in `f16`
use amp::prelude::*;

pub struct Cache {
    keys: Tensor<F16>,
}

#[autocast(f16)]
pub fn f(cache: &Cache) -> Result<Tensor<F16>> {
    &cache.keys + 1e-8
    //~ ^ here
}

fn main() {}
