//~ error: `1e-12` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    #[cfg(true)]
    let y = x.matmul(x)?.add(1e-12)?;
    //~ ^ here
    #[cfg(false)]
    let y = y.add(1e-13)?;
    Ok(y)
}

fn main() {}
