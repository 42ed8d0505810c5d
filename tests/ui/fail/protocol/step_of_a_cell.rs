//~ error: `step` does not belong inside an autocast region
use amp::{optim::AdamW, prelude::*};
use std::cell::RefCell;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, opt: &RefCell<AdamW>, grads: &Gradients) -> Result<Tensor<F32>> {
    opt.borrow_mut().step(grads)?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
