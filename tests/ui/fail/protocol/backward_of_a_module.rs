//~ error: `backward` does not belong inside an autocast region
use amp::{nn::Linear, prelude::*};

pub struct Net {
    layer: Linear,
}

impl Net {
    #[autocast(f16)]
    pub fn loss(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let loss = self.layer.forward(x)?;
        loss.backward()?;
        //~ ^ here
        Ok(loss)
    }
}

fn main() {}
