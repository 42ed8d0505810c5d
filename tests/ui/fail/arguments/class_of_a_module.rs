//~ error: no call of `linear` here that this option could change
use amp::nn::Linear;
use amp::prelude::*;

pub struct Head {
    linear: Linear,
}

impl Head {
    #[autocast(f16, full(linear))]
    //~ ^ here
    pub fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.linear.forward(x)
    }
}

fn main() {}
