//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (mut p, mut q, mut r) = (x.clone(), x.clone(), x.clone());
    for _ in 0..3 {
        r.matmul(w)?;
        //~ ^ here
        r = q;
        q = p.exp()?.reshape(&[2, 2])?;
        p = q.clone();
        q = x.to::<F32>()?;
    }
    Ok(p)
}

fn main() {}
