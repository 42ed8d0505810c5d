//~ error: `update_to` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(scaler: &mut GradScaler, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    scaler.update_to(65536.0)?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
