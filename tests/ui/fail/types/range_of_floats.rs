//~ error: a range of `i64` has no
use amp::prelude::*;

pub fn f(device: &Device) -> Result<Tensor<I64>> {
    Tensor::<I64>::arange(0, 2.5, device)
    //~ ^ here
}

fn main() {}
