//~ error: `set` does not belong inside an autocast region
use amp::prelude::*;
use std::rc::Rc;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>, p: &Rc<Parameter>, q: &Rc<Parameter>) -> Result<Tensor<F32>> {
    for each in &[p, q] {
        each.set(x)?;
        //~ ^ here
    }
    x.matmul(x)
}

fn main() {}
