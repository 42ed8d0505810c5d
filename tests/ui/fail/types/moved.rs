//~ error: borrow of moved value: `h`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.exp()?;
    drop(h);
    h.relu()
    //~ ^ here
}

fn main() {}
