//~ error: type annotations needed
//! Without the attribute the compiler says the same: what it calls a method on must have a type by then.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Option<Tensor<F32>>> {
    let mut h = None;
    for x in xs {
        let before = h.map(|h| h.matmul(w)).transpose()?;
        //~ ^ here
        h = Some(match before {
            None => x.tanh()?,
            Some(before) => before.tanh()?,
        });
    }
    Ok(h)
}

fn main() {}
