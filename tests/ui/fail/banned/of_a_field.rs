//~ error: `binary_cross_entropy` is unsafe under autocast
use amp::prelude::*;

pub struct Head {
    probabilities: Tensor<F32>,
}

impl Head {
    #[autocast(bf16)]
    pub fn loss(&self, target: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.probabilities.binary_cross_entropy(target)
        //~ ^ here
    }
}

fn main() {}
