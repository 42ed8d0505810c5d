//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

pub struct State {
    sum: Tensor<F32>,
}

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, s: &mut State) -> Result<Tensor<F32>> {
    s.sum = x.matmul(w)?.to::<F32>()?;
    (&s.sum * 2.0)?.matmul(w)
    //~ ^ here
}

fn main() {}
