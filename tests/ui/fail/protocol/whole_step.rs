//~ error: `backward` does not belong inside an autocast region
use amp::{nn::Linear, optim::Sgd, prelude::*};

pub struct Trainer {
    net: Linear,
    opt: Sgd,
    scaler: GradScaler,
}

impl Trainer {
    #[autocast(f16)]
    pub fn step(&mut self, x: &Tensor<F32>, y: &Tensor<F32>) -> Result<f32> {
        let loss = self.net.forward(x)?.mse_loss(y)?;
        let grads = self.scaler.scale(&loss)?.backward()?;
        //~ ^ here
        let mut grads = self.scaler.unscale(grads)?;
        grads.clip_norm(1.0)?;
        self.scaler.step(&mut self.opt, grads)?;
        self.scaler.update()?;
        loss.item()
    }
}

fn main() {}
