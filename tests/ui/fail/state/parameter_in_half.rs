//~ error: mismatched types
use amp::prelude::*;

pub fn f(weight: &Tensor<F32>) -> Result<Parameter> {
    Parameter::new(&weight.to::<BF16>()?)
    //~ ^ here
}

fn main() {}
