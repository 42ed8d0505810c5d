//~ error: `step` does not belong inside an autocast region
use amp::{optim::Lbfgs, prelude::*};

#[autocast(bf16)]
pub fn f(x: &Tensor<F32>, opt: &mut Lbfgs) -> Result<Tensor<F32>> {
    opt.step(|| x.sqr()?.mean_all())?;
    //~ ^ here
    x.matmul(x)
}

fn main() {}
