//~ error: `sum_all` must run in `F32`
use amp::prelude::*;

pub fn f(x: &Tensor<BF16>) -> Result<f32> {
    x.relu()?.sum_all()?.to::<F32>()?.item()
    //~ ^ here
}

fn main() {}
