//~ error: `-1e9` does not fit in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let fill = -1e9;
    h.masked_fill(mask, fill as f64)
    //~ ^ here
}

fn main() {}
