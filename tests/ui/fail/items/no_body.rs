//~ error: `#[autocast]` needs a body to rewrite
use amp::prelude::*;

pub trait Layer {
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>>;
    //~ ^ here
}

fn main() {}
