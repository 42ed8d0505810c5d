//~ error: `D` becomes 0 in `f16`
use amp::prelude::*;

const D: f32 = 1e-9;

#[autocast(f16)]
fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)? + D
    //~ ^ here
}

fn main() {
    let _ = f as fn(&_) -> _;
}
