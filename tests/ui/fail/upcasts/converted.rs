//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let [p, q]: [_; 2] = x.to::<F32>()?.chunk(2, 0)?.try_into().expect("two");
    p.matmul(&q)
    //~ ^ here
}

fn main() {}
