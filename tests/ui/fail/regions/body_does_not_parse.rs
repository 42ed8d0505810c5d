//~ error: expected pattern, found `=`
//! A region whose block does not parse: the compiler's own message.

use amp::prelude::*;

pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f16, {
        let = x.matmul(w)?;
        //~ ^ here
        x.softmax(-1)
    })
}

fn main() {}
