//~ error: `step` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(opt: &mut amp::optim::Sgd, grads: &Gradients, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    Optimizer::step(opt, grads)?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
