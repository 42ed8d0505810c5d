//~ error: `max_casts` belongs to the outermost region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let y = amp_region!(bf16, max_casts = 1, x.matmul(w)?);
    //~ ^ here
    y.exp()
}

fn main() {}
