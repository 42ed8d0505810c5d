//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut p = x.clone();
    let mut widen = || -> Result<()> {
        p = x.to::<F32>()?;
        Ok(())
    };
    widen()?;
    p.matmul(w)
    //~ ^ here
}

fn main() {}
