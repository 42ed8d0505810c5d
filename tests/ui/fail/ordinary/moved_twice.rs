//~ error: use of moved value: `timer`
//! A method that takes its receiver, twice.

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
    drop(timer.softmax());
    drop(timer.softmax());
    //~ ^ here
    x.matmul(w)
}

fn main() {}
