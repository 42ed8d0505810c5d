//~ error: 2 costed casts, but `max_casts = 1`
use amp::prelude::*;

#[autocast(f16, lower(add), max_casts = 1)]
//~ ^ here
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x + w
}

fn main() {}
