//~ error: this cast to `F32` would be undone
use amp::nn::Linear;
use amp::prelude::*;

type Full = F32;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, fc: &Linear) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?.to::<Full>()?.relu()?;
    fc.forward(&h)
    //~ ^ here
}

fn main() {}
