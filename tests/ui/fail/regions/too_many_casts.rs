//~ error: 2 costed casts, but `max_casts = 1`
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f16, max_casts = 1, x.matmul(w)?.exp())
    //~ ^ here
}

fn main() {}
