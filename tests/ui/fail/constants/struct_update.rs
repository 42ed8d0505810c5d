//~ error: `1e-9` becomes 0 in `f16`
use amp::prelude::*;

pub struct Options {
    pub eps: f64,
    pub scale: f64,
}

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let usual = Options { eps: 1e-9, scale: 1.0 };
    let options = Options { scale: 0.5, ..usual };
    (x.matmul(x)? * options.scale)? + options.eps
    //~ ^ here
}

fn main() {}
