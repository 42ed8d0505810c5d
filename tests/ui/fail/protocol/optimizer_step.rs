//~ error: `step` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, opt: &mut amp::optim::Sgd, grads: &Gradients) -> Result<Tensor<F32>> {
    let loss = x.matmul(x)?.mean_all()?;
    opt.step(grads)?;
    //~ ^ here
    Ok(loss)
}

fn main() {}
