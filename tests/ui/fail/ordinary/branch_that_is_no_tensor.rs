//~ error: `match` arms have incompatible types
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let y = x.matmul(x)?;
    let z = match n {
        0 => y.relu()?,
        1 => y.exp()?,
        _ => "no",
        //~ ^ here
    };
    z.tanh()
}

fn main() {}
