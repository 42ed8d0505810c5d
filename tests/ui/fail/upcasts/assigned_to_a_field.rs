//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

pub struct State {
    pub h: Tensor<F32>,
}

#[autocast(bf16)]
pub fn f(state: &mut State, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    state.h = x.to::<F32>()?;
    state.h.matmul(w)
    //~ ^ here
}

fn main() {}
