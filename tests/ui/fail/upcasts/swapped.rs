//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (mut a, mut b) = (x.matmul(w)?.to::<F32>()?, x.clone());
    std::mem::swap(&mut a, &mut b);
    a.matmul(&b)
    //~ ^ here
}

fn main() {}
