//~ error: cannot move out of `self.bias` which is behind a shared reference
//! A field beside an operator, which would take it.

use amp::prelude::*;

pub struct Model {
    bias: Tensor<F32>,
}

impl Model {
    #[autocast(f16)]
    pub fn forward(&self, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(w)? + self.bias
        //~ ^ here
    }
}

fn main() {}
