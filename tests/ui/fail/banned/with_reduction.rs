//~ error: `binary_cross_entropy_with` is unsafe under autocast
use amp::prelude::*;

#[autocast(f16)]
pub fn f(z: &Tensor<F32>, t: &Tensor<F32>, r: amp::LossReduction) -> Result<Tensor<F32>> {
    z.sigmoid()?.binary_cross_entropy_with(t, None, r)
    //~ ^ here
}

fn main() {}
