//~ error: `step` does not belong inside an autocast region
use amp::prelude::*;

pub struct Trainer {
    opt: amp::optim::Sgd,
    scaler: GradScaler,
}

impl Trainer {
    #[autocast(f16)]
    pub fn train(&mut self, x: &Tensor<F32>, grads: Gradients<amp::Scaled>) -> Result<Tensor<F32>> {
        self.scaler.step(&mut self.opt, grads)?;
        //~ ^ here
        x.relu()
    }
}

fn main() {}
