//~ error: there is no operation `gellu`
use amp::prelude::*;

#[autocast(f16, full(gellu))]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.matmul(x)?.gelu()
}

fn main() {}
