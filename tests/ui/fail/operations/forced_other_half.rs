//~ error: this `BF16` tensor meets `F16` in `mean_all`
use amp::prelude::*;

#[autocast(f16, force_lower(mean_all))]
pub fn f(x: &Tensor<BF16>) -> Result<Tensor<F32>> {
    x.mean_all()
    //~ ^ here
}

fn main() {}
