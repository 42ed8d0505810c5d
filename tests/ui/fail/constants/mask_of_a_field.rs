//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

pub struct Cache {
    keys: Tensor<F16>,
}

#[autocast(f16)]
pub fn f(cache: &Cache, mask: &Tensor<Bool>) -> Result<Tensor<F16>> {
    cache.keys.masked_fill(mask, -1e9)
    //~ ^ here
}

fn main() {}
