//~ error: expected `,` between the precision and the body
use amp::prelude::*;

pub fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f16 { x.matmul(x) })
    //~ ^ here
}

fn main() {}
