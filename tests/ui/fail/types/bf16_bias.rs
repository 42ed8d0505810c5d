//~ error: this `BF16` tensor meets `F16`
use amp::prelude::*;

pub struct Head {
    weight: Tensor<F32>,
    bias: Option<Tensor<BF16>>,
}

impl Head {
    #[autocast(f16)]
    pub fn f(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.linear(&self.weight, self.bias.as_ref())?.relu()
        //~                    ^ here
    }
}

fn main() {}
