//~ error: `step` does not belong inside an autocast region
use amp::{optim::AdamW, prelude::*};
use std::sync::Mutex;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, opt: &Mutex<AdamW>, grads: &Gradients) -> Result<Tensor<F32>> {
    opt.lock().unwrap().step(grads)?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
