//~ error: `1e-8` becomes 0 in `f16`
use amp::prelude::*;

struct Cache {
    keys: Tensor<F16>,
}

#[autocast(f16)]
fn f(cache: &Cache) -> Result<Tensor<F16>> {
    &cache.keys + 1e-8
    //~ ^ here
}

fn main() {
    let _ = f as fn(&_) -> _;
}
