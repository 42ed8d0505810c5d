//~ error: `backward` does not belong inside an autocast region
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<()> {
    amp_region!(f16, { x.matmul(w)?.mean_all()?.backward()?; });
    //~ ^ here
    Ok(())
}

fn main() {}
