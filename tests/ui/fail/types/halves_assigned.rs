//~ error: mismatched types
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>, last: bool) -> Result<Tensor<F32>> {
    let mut h = x.matmul(x)?;
    if last {
        h = b.clone();
        //~ ^ here
    }
    h.matmul(x)
}

fn main() {}
