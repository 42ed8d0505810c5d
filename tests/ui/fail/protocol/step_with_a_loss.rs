//~ error: a scaler steps with gradients by value
use amp::prelude::*;

pub fn f(scaler: &mut GradScaler, opt: &mut amp::optim::Sgd, loss: &Tensor<F32>) -> Result<()> {
    let scaled = scaler.scale(loss)?;
    scaler.step(opt, scaled)?;
    //~ ^ here
    scaler.update()
}

fn main() {}
