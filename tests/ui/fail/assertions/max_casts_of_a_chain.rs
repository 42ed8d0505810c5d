//~ error: more costed casts than `max_casts = 0`
use amp::nn::Linear;
use amp::prelude::*;

#[autocast(f16, max_casts = 0)]
//~ ^ here
pub fn forward(up: &Linear, down: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    down.forward(&up.forward(x)?)
}

fn main() {}
