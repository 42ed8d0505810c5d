//~ error: the branches of this expression have incompatible types
use amp::{nn::Linear, prelude::*};

type Full = Tensor<F32>;

#[autocast(f16)]
pub fn f(fc: &Linear, x: &Full) -> Result<Full> {
    match fc.forward(x) {
        //~ ^ here
        Ok(h) => h.relu(),
        Err(error) => error,
    }
}

fn main() {}
