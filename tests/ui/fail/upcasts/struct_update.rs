//~ error: this cast to `F32` would be undone by `matmul`
use amp::prelude::*;

pub struct Table {
    pub positions: Tensor<F32>,
    pub heads: usize,
}

#[autocast(bf16)]
pub fn f(positions: &Tensor<BF16>, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let one = Table { positions: positions.to::<F32>()?, heads: 1 };
    let many = Table { heads: 8, ..one };
    many.positions.matmul(x)?.div(many.heads as f64)?.cos()
    //~ ^ here
}

fn main() {}
