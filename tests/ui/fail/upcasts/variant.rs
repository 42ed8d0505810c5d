//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

pub enum State {
    Ready(Tensor<F32>),
    Empty,
}

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let state = State::Ready(x.matmul(w)?.to::<F32>()?);
    match state {
        State::Ready(h) => h.matmul(w),
        //~ ^ here
        State::Empty => Ok(x.clone()),
    }
}

fn main() {}
