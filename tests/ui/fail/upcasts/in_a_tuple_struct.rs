//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

struct Pair(Tensor<F32>, Tensor<F32>);

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let pair = Pair(x.matmul(w)?.softmax(-1)?, x.matmul(w)?.to::<F32>()?);
    let y = pair.0.matmul(w)?;
    pair.1.matmul(&y)
    //~ ^ here
}

fn main() {}
