//~ error: this `F32` value would be narrowed to `F16` in `h`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h: Tensor<F16> = amp_region!(f32, x.matmul(w)?);
    //~ ^ here
    h.exp()
}

fn main() {}
