//~ error: these gradients are not multiplied by a loss scale
use amp::prelude::*;

pub fn f(scaler: &mut GradScaler, loss: &Tensor<F32>) -> Result<Gradients> {
    let grads = scaler.scale(loss)?.backward()?;
    let mut grads = scaler.unscale(grads)?;
    grads.clip_norm(1.0)?;
    scaler.unscale(grads)
    //~ ^ here
}

fn main() {}
