//~ error: the function or associated item `arange` exists for struct `amp::Tensor<amp::F16>`, but its trait bounds were not satisfied
use amp::prelude::*;

pub fn f(device: &Device) -> Result<Tensor<F16>> {
    Tensor::<F16>::arange(0.0, 5000.0, 1.0, device)
    //~ ^ here
}

fn main() {}
