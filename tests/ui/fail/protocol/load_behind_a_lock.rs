//~ error: `load` does not belong inside an autocast region
use amp::{nn::Linear, prelude::*};
use std::sync::Mutex;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, fc: &Mutex<Linear>) -> Result<Tensor<F32>> {
    fc.lock().unwrap().load("weights.safetensors")?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
