//~ error: `set` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(p: &Parameter, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    Parameter::set(p, x)?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
