//~ error: this method takes 1 argument but 0 arguments were supplied
//! A method with an operation's name, without its argument.

use amp::prelude::*;

pub struct Report(Vec<f32>);

impl Report {
    fn softmax(&self, temperature: f32) -> f32 {
        self.0.iter().map(|x| (x / temperature).exp()).sum()
    }
}

#[autocast(f16)]
pub fn forward(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let report = Report(Vec::new());
    let total = report.softmax();
    //~ ^ here
    x.matmul(w)? * total
}

fn main() {}
