//~ error: cannot find type `Linaer` in this scope
use amp::prelude::*;

#[autocast(f16)]
pub fn f(fc: &Linaer, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    //~ ^ here
    let h = x.matmul(x)?;
    let y = fc.forward(&h)?;
    fc.forward(&y.relu()?)?.softmax(-1)
}

fn main() {}
