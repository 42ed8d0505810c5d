//~ error: more costed casts than `max_casts = 2`
use amp::nn::{LayerNorm, Linear, Relu};
use amp::prelude::*;

pub struct Mlp {
    norm: LayerNorm,
    up: Linear,
    act: Relu,
    down: Linear,
}

impl Mlp {
    #[autocast(f16, max_casts = 2)]
    //~ ^ here
    pub fn forward(&self, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.norm.forward(x)?;
        let y = self.up.forward(x)?;
        let y = self.act.forward(&y)?;
        let y = (y + &h)?;
        self.down.forward(&y)?.matmul(w)
    }
}

fn main() {}
