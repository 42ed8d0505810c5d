//~ error: this method takes 1 argument but 2 arguments were supplied
//! An argument too many, on a receiver of a type that the macro cannot see.

use amp::prelude::*;

pub struct Model {
    pub w: Tensor<F32>,
}

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let model = Model { w: w.clone() };
    model.w.matmul(x, w)
    //~ ^ here
}

fn main() {}
