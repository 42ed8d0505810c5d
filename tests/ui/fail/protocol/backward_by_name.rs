//~ error: `backward` does not belong inside an autocast region
use amp::prelude::*;

#[autocast(f16)]
pub fn f(x: &Tensor<F32>) -> Result<usize> {
    let losses = [x.exp()?.mean_all()?, x.sqr()?.mean_all()?];
    let all = losses.iter().map(Tensor::backward).collect::<Result<Vec<_>>>()?;
    //~ ^ here
    Ok(all.len())
}

fn main() {}
