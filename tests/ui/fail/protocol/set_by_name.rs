//~ error: `set` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(p: &Parameter, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let set = Parameter::set;
    //~ ^ here
    set(p, x)?;
    x.matmul(x)
}

fn main() {}
