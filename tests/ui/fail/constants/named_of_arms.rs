//~ error: `LARGE` does not fit in `f16`
use amp::prelude::*;

const SMALL: f32 = -1e4;
const LARGE: f32 = -1e9;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>, kind: u8) -> Result<Tensor<F32>> {
    let (scale, fill) = (2.0, match kind {
        0 => SMALL,
        _ => LARGE,
        //~ ^ here
    });
    (x.matmul(x)? * scale)?.masked_fill(mask, fill)?.softmax(-1)
}

fn main() {}
