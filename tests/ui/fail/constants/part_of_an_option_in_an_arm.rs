//~ error: `MASK` does not fit in `f16`
use amp::prelude::*;

static MASK: Option<f64> = Some(-1e9);

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    match MASK {
    //~ ^ here
        Some(value) => h.masked_fill(mask, value),
        None => Ok(h),
    }
}

fn main() {}
