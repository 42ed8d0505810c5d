//! Methods of one's own types, and one's own methods of tensors, whose names mean something else to a region.

use super::random;
use amp::prelude::*;

/// A reader with the names of what trains.
struct Cursor {
    at: usize,
}

impl Cursor {
    fn backward(&self) -> usize {
        self.at - 1
    }

    fn backward_for(&mut self, steps: usize) -> &mut Self {
        self.at -= steps;
        self
    }

    fn backward_with(self, steps: usize) -> Self {
        Self { at: self.at - steps }
    }

    fn backward_retained(&self) -> Option<usize> {
        self.at.checked_sub(1)
    }

    fn update(&mut self, at: usize) {
        self.at = at;
    }

    fn schedule(&self) -> f64 {
        self.at as f64
    }

    fn new(at: usize) -> Self {
        Self { at }
    }

    #[autocast(f16)]
    fn scaled(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(x)? * self.backward() as f32
    }
}

#[autocast(f16)]
fn borrowed(x: &Tensor<F32>, c: &Cursor) -> Result<Tensor<F32>> {
    x.matmul(x)? * c.backward() as f32
}

#[autocast(f16)]
fn exclusive(x: &Tensor<F32>, c: &mut Cursor) -> Result<Tensor<F32>> {
    c.update(9);
    let at = c.backward_for(2).backward_for(3).backward();
    x.matmul(x)? * at as f32
}

#[autocast(f16)]
fn owned(x: &Tensor<F32>, c: Cursor) -> Result<Tensor<F32>> {
    let at = c.backward_with(1).backward_retained().unwrap_or(0);
    x.matmul(x)? * at as f32
}

#[autocast(f16)]
fn elsewhere(x: &Tensor<F32>, list: &[Cursor], boxed: Box<Cursor>) -> Result<Tensor<F32>> {
    let sum = list.iter().map(|c| c.backward()).sum::<usize>() + list[0].backward() + boxed.backward();
    let sum = sum + Cursor::backward(&list[1]) + Cursor { at: 2 }.backward() + Cursor::new(3).backward();
    x.matmul(x)? * (sum as f64 + boxed.schedule())
}

#[test]
fn methods_of_own_types_are_called_as_written() -> Result<()> {
    let x = random([4, 4])?;
    let product = x.to::<F16>()?.matmul(&x.to::<F16>()?)?;
    let times = |n: f64| -> Result<Vec<f32>> { (&product * n)?.to::<F32>()?.to_vec() };
    assert_eq!(borrowed(&x, &Cursor { at: 3 })?.to_vec()?, times(2.0)?);
    assert_eq!(Cursor { at: 3 }.scaled(&x)?.to_vec()?, times(2.0)?);
    let mut c = Cursor { at: 0 };
    assert_eq!((exclusive(&x, &mut c)?.to_vec()?, c.at), (times(3.0)?, 4));
    assert_eq!(owned(&x, Cursor { at: 4 })?.to_vec()?, times(2.0)?);
    let list = [Cursor { at: 1 }, Cursor { at: 2 }];
    assert_eq!(elsewhere(&x, &list, Box::new(Cursor { at: 1 }))?.to_vec()?, times(6.0)?);
    Ok(())
}
