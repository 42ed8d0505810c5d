//~ error: missing condition for `if` expression
//! The same inside an annotated function.

use amp::prelude::*;

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let y = amp_region!(f32, {
        if { }
        //~ ^ here
        h.softmax(-1)?
    });
    y.relu()
}

fn main() {}
