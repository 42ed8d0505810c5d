//~ error: becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)? + const { 1e-4 * 1e-4 }
    //~ ^ here
}

fn main() {
    let _ = f as fn(&_) -> _;
}
