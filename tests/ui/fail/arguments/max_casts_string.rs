//~ error: `max_casts` takes a number
use amp::prelude::*;

#[autocast(f16, max_casts = "2")]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.relu()
}

fn main() {}
