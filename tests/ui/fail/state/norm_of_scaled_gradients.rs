//~ error: these gradients are still multiplied by the loss scale
use amp::prelude::*;

pub fn f(scaler: &mut GradScaler, loss: &Tensor<F32>) -> Result<Tensor<F32>> {
    let grads = scaler.scale(loss)?.backward()?;
    grads.norm()
    //~ ^ here
}

fn main() {}
