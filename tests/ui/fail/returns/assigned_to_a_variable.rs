//~ error: this `F32` value would be narrowed to `BF16` in `h`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, steps: usize) -> Result<Tensor<BF16>> {
    let mut h: Tensor<BF16> = x.matmul(x)?;
    for _ in 0..steps {
        h = h.softmax(-1)?;
        //~ ^ here
    }
    Ok(h)
}

fn main() {}
