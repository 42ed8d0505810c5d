//~ error: a `[usize; 3]` names no axes
use amp::prelude::*;

pub fn f(x: &Tensor<F32>, order: [usize; 3]) -> Result<Tensor<F32>> {
    x.permute(order)
    //~ ^ here
}

fn main() {}
