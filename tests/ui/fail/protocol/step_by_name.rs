//~ error: `step` does not belong inside an autocast region
use amp::{Gradients, Optimizer, optim::Sgd, prelude::*};

#[autocast(f16)]
pub fn f(optimizers: &mut [Sgd], grads: &Gradients, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let step = <Sgd as Optimizer>::step;
    //~ ^ here
    optimizers.iter_mut().try_for_each(|one| step(one, grads))?;
    x.matmul(x)
}

fn main() {}
