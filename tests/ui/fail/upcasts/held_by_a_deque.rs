//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let held = std::collections::VecDeque::from(vec![x.matmul(w)?.to::<F32>()?]);
    held[0].matmul(w)
    //~ ^ here
}

fn main() {}
