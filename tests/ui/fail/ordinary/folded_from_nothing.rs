//~ error: type annotations needed for `Option<_>`
//! What has been folded so far meets a tensor of F16, and nothing says yet what it is.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Option<Tensor<F32>>> {
    xs.iter().try_fold(None, |sum, x| {
        //~ ^ here
        let y = x.matmul(w)?;
        Ok(Some(match sum {
            None => y,
            Some(sum) => y.add(&sum)?,
        }))
    })
}

fn main() {}
