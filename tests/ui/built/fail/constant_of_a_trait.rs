//~ error: becomes 0 in `f16`
use amp::prelude::*;

trait Stable {
    const EPS: f64;
}

struct Model;

impl Stable for Model {
    const EPS: f64 = 1e-8;
}

#[autocast(f16)]
fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)? + <Model as Stable>::EPS
    //~ ^ here
}

fn main() {
    let _ = f as fn(&_) -> _;
}
