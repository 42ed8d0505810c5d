//~ error: `LIMITS[1]` becomes 0 in `f16`
use amp::prelude::*;

const LIMITS: [f32; 3] = [1.0, 1e-8, 2.0];

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let [_, low, ..] = LIMITS;
    //~ ^ here
    x.matmul(x)?.clamp_min(low)
}

fn main() {}
