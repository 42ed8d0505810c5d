//~ error: `NEG` does not fit in `f16`
use amp::prelude::*;

const NEG: f32 = -1e9;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    mask.where_(&h, NEG)?.softmax(-1)
    //~ ^ here
}

fn main() {}
