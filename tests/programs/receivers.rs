//! Methods whose receivers have a type that is written.

use super::{T, bits, random};
use amp::prelude::*;
use std::pin::Pin;
use std::rc::Rc;

/// Its methods have the names of operations.
struct Log(Vec<f32>);

impl Log {
    fn log(&mut self, value: f32) {
        self.0.push(value);
    }

    fn exp(&self) -> usize {
        self.0.len()
    }
}

struct Net {
    log: Log,
    w: T,
}

#[allow(clippy::needless_arbitrary_self_type)]
impl Net {
    fn new(w: &T) -> Self {
        Self { log: Log(Vec::new()), w: w.clone() }
    }

    #[autocast(f16)]
    fn exclusive(self: &mut Self, x: &Tensor<F32>) -> Result<T> {
        self.log.log(1.0);
        let h = x.matmul(&self.w)?;
        self.w = self.w.relu()?;
        h.matmul(&self.w)
    }

    #[autocast(f16)]
    fn exclusive_in_short(&mut self, x: &Tensor<F32>) -> Result<T> {
        self.log.log(1.0);
        let h = x.matmul(&self.w)?;
        self.w = self.w.relu()?;
        h.matmul(&self.w)
    }

    #[autocast(f16, max_casts = 2)]
    fn shared(self: &Self, x: &Tensor<F32>) -> Result<T> {
        assert_eq!(self.log.exp(), 0);
        x.matmul(&self.w)?.matmul(&self.w)
    }

    #[autocast(f16, max_casts = 2)]
    fn counted(self: &Rc<Self>, x: &Tensor<F32>) -> Result<T> {
        self.shared(x)?;
        x.matmul(&self.w)?.matmul(&self.w)
    }

    #[autocast(f16)]
    fn boxed(mut self: Box<Self>, x: &Tensor<F32>) -> Result<T> {
        self.log.log(1.0);
        x.matmul(&self.w)?.matmul(&self.w)
    }

    #[autocast(f16)]
    fn pinned(self: Pin<&mut Self>, x: &Tensor<F32>) -> Result<T> {
        let net = self.get_mut();
        net.log.log(1.0);
        x.matmul(&net.w)?.matmul(&net.w)
    }
}

#[test]
fn receivers_are_what_their_types_say() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let w16 = w.to::<F16>()?;
    let by_hand = bits(&x.to::<F16>()?.matmul(&w16)?.matmul(&w16)?.to()?);
    let (mut net, mut other) = (Net::new(&w), Net::new(&w));
    assert_eq!(bits(&net.shared(&x)?), by_hand);
    assert_eq!(bits(&net.exclusive(&x)?), bits(&other.exclusive_in_short(&x)?));
    assert_eq!((net.log.0.as_slice(), bits(&net.w)), ([1.0].as_slice(), bits(&w.relu()?)));
    assert_eq!(bits(&Rc::new(Net::new(&w)).counted(&x)?), by_hand);
    assert_eq!(bits(&Box::new(Net::new(&w)).boxed(&x)?), by_hand);
    assert_eq!(bits(&Pin::new(&mut Net::new(&w)).pinned(&x)?), by_hand);
    Ok(())
}
