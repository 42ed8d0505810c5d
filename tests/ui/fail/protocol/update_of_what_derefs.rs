//~ error: `update` does not belong inside an autocast region
use amp::prelude::*;
use std::ops::DerefMut;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mut scaler: impl DerefMut<Target = GradScaler>) -> Result<Tensor<F32>> {
    scaler.update()?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
