//~ error: `Lbfgs` is no optimizer that steps with given gradients
use amp::prelude::*;

pub fn f(scaler: &mut GradScaler, opt: &mut amp::optim::Lbfgs, loss: &Tensor<F32>) -> Result<()> {
    let grads = scaler.scale(loss)?.backward()?;
    scaler.step(opt, grads)?;
    //~ ^ here
    scaler.update()
}

fn main() {}
