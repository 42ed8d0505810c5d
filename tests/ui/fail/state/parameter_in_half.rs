//~ error: mismatched types
use amp::prelude::*;

pub fn f(weight: &Tensor<BF16>) -> Result<Parameter> {
    Parameter::new(weight)
    //~ ^ here
}

fn main() {}
