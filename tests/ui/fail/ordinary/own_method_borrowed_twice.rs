//~ error: cannot borrow `*running` as mutable more than once at a time
//! A method with an operation's name that borrows its receiver exclusively, while its first result is in use.

use amp::prelude::*;

pub struct Running(Vec<f32>);

impl Running {
    fn cumsum(&mut self) -> &mut f32 {
        &mut self.0[0]
    }
}

#[autocast(f16)]
pub fn forward(running: &mut Running, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let first = running.cumsum();
    let second = running.cumsum();
    //~ ^ here
    x.matmul(w)? * (*first + *second)
}

fn main() {}
