//~ error: `MASK` does not fit in `f16`
use amp::prelude::*;

const MASK: f32 = -1e9;

#[autocast(P)]
fn masked<P: AutocastPrecision>(x: &Tensor<F32>, w: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    x.matmul(w)?.masked_fill(mask, MASK)
    //~ ^ here
}

fn main() {
    let _ = masked::<F16> as fn(&_, &_, &_) -> _;
}
