//~ error: `backward` does not belong inside an autocast region
use amp::{nn::Lstm, prelude::*};

pub struct Net {
    layer: Lstm,
}

impl Net {
    #[autocast(f32)]
    pub fn loss(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let (loss, _) = self.layer.forward(x)?;
        loss.backward()?;
        //~ ^ here
        Ok(loss)
    }
}

fn main() {}
