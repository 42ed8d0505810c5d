//~ error: a value of type `Vec<usize>` cannot be built from an iterator over elements of type `amp::Tensor<amp::F16>`
use amp::{nn::Linear, prelude::*};

pub struct Sizes {
    pub all: Vec<usize>,
}

#[autocast(f16)]
pub fn f(fc: &Linear, xs: &[Tensor<F32>]) -> Result<Sizes> {
    Ok(Sizes { all: xs.iter().map(|x| fc.forward(x)).collect::<Result<_>>()? })
    //~ ^ here
}

fn main() {}
