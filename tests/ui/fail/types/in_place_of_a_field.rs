//~ error: a tensor is never changed in place
use amp::prelude::*;

pub struct Meter {
    sum: Tensor<F32>,
}

impl Meter {
    pub fn add(&mut self, x: &Tensor<F32>) -> Result<()> {
        self.sum += x;
        //~ ^ here
        Ok(())
    }
}

fn main() {}
