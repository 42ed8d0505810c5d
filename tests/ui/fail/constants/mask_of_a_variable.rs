//~ error: `-1e9` does not fit in `f16`
pub use amp::Fill::Value;
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let lowest = -1e9;
    x.matmul(x)?.masked_fill(mask, Value(lowest))
    //~ ^ here
}

fn main() {}
