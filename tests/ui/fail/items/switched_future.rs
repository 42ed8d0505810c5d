//~ error: the two bodies of a function with `enabled` cannot give one `impl Future`
use amp::prelude::*;

#[autocast(f16, enabled = on)]
pub fn f(x: &Tensor<F32>, on: bool) -> impl Future<Output = Result<Tensor<F32>>> {
    //~ ^ here
    async move { x.matmul(x) }
}

fn main() {}
