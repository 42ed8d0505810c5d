//~ error: this `F32` value would be narrowed to `F16` on return
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F16>> {
    if x.rank() == 2 {
        return x.exp();
    //~ ^ here
    }
    x.matmul(w)
}

fn main() {}
