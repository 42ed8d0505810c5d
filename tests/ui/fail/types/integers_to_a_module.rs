//~ error: this module computes with floating-point numbers
use amp::{nn::Linear, prelude::*};

pub struct Model {
    first: Linear,
}

impl Model {
    #[autocast(f16)]
    pub fn forward(&self, ids: &Tensor<I64>) -> Result<Tensor<F32>> {
        let h = self.first.forward(ids)?;
        //~ ^ here
        h.relu()
    }
}

fn main() {}
