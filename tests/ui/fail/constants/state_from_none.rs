//~ error: `1e-9` becomes 0 in `f16`
use amp::prelude::*;

#[autocast(f16)]
pub fn f(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut sum = None;
    for x in xs {
        let y = x.matmul(w)?;
        sum = Some(match sum {
            None => y,
            Some(sum) => (sum + y)?,
        });
    }
    sum.ok_or(Error::NothingChecked)? + 1e-9
    //~ ^ here
}

fn main() {}
