//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>, exact: bool) -> Result<Tensor<F32>> {
    let mut p = x.relu()?;
    if exact {
        p = p.to::<F32>()?;
    }
    p.matmul(w)
    //~ ^ here
}

fn main() {}
