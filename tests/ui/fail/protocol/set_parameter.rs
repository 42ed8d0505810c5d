//~ error: `set` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, p: &Parameter) -> Result<Tensor<F32>> {
    let y = x.matmul(x)?;
    p.set(&x.exp()?)?;
    //~ ^ here
    y.exp()
}

fn main() {}
