//~ error: field `w` of struct `Model` is private
//! A private field as the receiver of an operation.

use amp::prelude::*;

mod inner {
    pub struct Model {
        w: amp::Tensor<amp::F32>,
    }

    pub fn model(w: &amp::Tensor<amp::F32>) -> Model {
        Model { w: w.clone() }
    }
}

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let model = inner::model(w);
    model.w.matmul(x)
    //~ ^ here
}

fn main() {}
