//~ error: `k::MASK` does not fit in `f16`
use amp::prelude::*;

mod k {
    pub const MASK: f64 = -1e30;
}

#[autocast(f16)]
pub fn f(q: &Tensor<F32>, m: &Tensor<Bool>) -> Result<Tensor<F32>> {
    q.matmul(q)?.masked_fill(m, k::MASK)?.softmax(-1)
    //~                            ^ here
}

fn main() {}
