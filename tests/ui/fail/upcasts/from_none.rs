//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut last = None;
    for x in xs {
        last = Some(x.matmul(w)?.to::<F32>()?);
    }
    last.ok_or(Error::NothingChecked)?.matmul(w)
    //~ ^ here
}

fn main() {}
