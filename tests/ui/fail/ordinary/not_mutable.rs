//~ error: cannot borrow value as mutable
//! A method that changes its receiver, which is no tensor and not declared `mut`.

use amp::prelude::*;

pub struct Timer(usize);

impl Timer {
    pub fn softmax(self) -> Self {
        self
    }

    pub fn exp(&mut self) {
        self.0 += 1;
    }
}

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let timer = Timer(1);
    timer.exp();
    //~ ^ here
    x.matmul(w)
}

fn main() {}
