//~ error: a value of type `Vec<amp::Tensor<amp::F32>>` cannot be built from an iterator over elements of type `amp::Tensor<amp::F16>`
use amp::prelude::*;

fn timed<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[autocast(f16)]
pub fn f(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    timed(|| xs.iter().map(|x| x.matmul(w)).collect())
    //~ ^ here
}

fn main() {}
