//~ error: `backward_retained` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, scaler: &GradScaler) -> Result<()> {
    let loss = x.matmul(x)?.mean_all()?.to::<F32>()?;
    scaler.scale(&loss)?.backward_retained()?;
    //~ ^ here
    Ok(())
}

fn main() {}
