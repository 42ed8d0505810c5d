//~ error: `if` and `else` have incompatible types
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, n: usize) -> Result<usize> {
    x.exp()?;
    let m = if n > 1 { n } else { "one" };
    //~ ^ here
    Ok(m)
}

fn main() {}
