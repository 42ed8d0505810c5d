//~ error: cannot find macro `careful` in this scope
use amp::prelude::*;

mod policies {
    amp::amp_policy! {
        careful { full: [gelu] }
    }
}

#[autocast(f16, policy = careful)]
//~ ^ here
pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.gelu()
}

fn main() {}
