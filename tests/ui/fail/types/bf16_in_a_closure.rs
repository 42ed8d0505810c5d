//~ error: cannot combine a `F16` tensor with a `BF16` tensor
use amp::prelude::*;

#[autocast(f16)]
pub fn f(xs: &[Tensor<F32>], b: &Tensor<BF16>) -> Result<Vec<Tensor<F32>>> {
    xs.iter().map(|x| x.matmul(x)?.add(b)).collect()
    //~ ^ here
}

fn main() {}
