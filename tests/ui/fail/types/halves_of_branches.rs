//~ error: this `BF16` tensor meets `F16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, b: &Tensor<BF16>, first: bool) -> Result<Tensor<F32>> {
    let h = if first { x.matmul(x)? } else { b.clone() };
    //~                                     ^ here
    h.matmul(x)
}

fn main() {}
