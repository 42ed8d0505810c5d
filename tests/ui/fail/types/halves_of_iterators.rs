//~ error: this `BF16` tensor meets `F16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &[Tensor<BF16>]) -> Result<usize> {
    let h = [x.matmul(x)?];
    Ok(h.iter().chain(b).count())
    //~               ^ here
}

fn main() {}
