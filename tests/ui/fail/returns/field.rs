//~ error: this `F32` value would be narrowed here
use amp::{
    nn::{LayerNorm, Linear},
    prelude::*,
};

pub struct Cache {
    pub keys: Tensor<F16>,
    pub values: Tensor<F16>,
}

#[autocast(f16)]
pub fn cache(keys: &Linear, values: &LayerNorm, x: &Tensor<F32>) -> Result<Cache> {
    Ok(Cache { keys: keys.forward(x)?, values: values.forward(x)? })
    //~ ^ here
}

fn main() {}
