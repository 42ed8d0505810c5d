//~ error: `-1.0 + 1e-3` becomes exactly -1 in `bf16`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(w)?.clamp(-1.0 + 1e-3, 0.5)
    //~ ^ here
}

fn main() {}
