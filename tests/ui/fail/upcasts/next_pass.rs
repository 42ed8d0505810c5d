//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut p = x.clone();
    for _ in 0..2 {
        p = p.matmul(w)?.exp()?.to::<F32>()?;
        //~ ^ here
    }
    Ok(p)
}

fn main() {}
