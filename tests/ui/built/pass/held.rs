//! What the region's precision holds is accepted, and so is every number that a tensor is only held against; a variable may have a
//! constant's name.

use amp::__private::{Element, Half, HeldIn, Part, is_half, to, verdict};
use amp::{
    nn::{LayerNorm, Linear},
    prelude::*,
};

const NEG: f32 = -1e9;
const D: f32 = 1e-6;

#[autocast(f16)]
fn f(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (N, B) = (3.0, 4.0);
    let h = ((layer.forward(x)? * N)? / B)?;
    let h = x.matmul(&h)? + D;
    h?.gt(1e-9)?.where_(&x.matmul(x)?, -1e4)
}

#[autocast(bf16)]
fn g(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = layer.forward(x)?;
    h.lt(1e39)?.eq(&h.gt(-1e9)?)?.where_(&h, NEG)
}

struct Net<M> {
    layer: M,
    norm: LayerNorm,
}

impl<M: AsRef<Linear>> Net<M> {
    const EPS: f64 = 1e-12;
    const DECAY: f64 = 0.9999;
    const STEPS: usize = 70_000;

    /// Beside F32, and beside numbers.
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>, turn: usize) -> Result<(Tensor<F32>, usize)> {
        let h = self.norm.forward(&self.layer.as_ref().forward(x)?)?;
        Ok((((h + Self::EPS)? * Self::DECAY)?, turn + Self::STEPS))
    }
}

struct Eps;

impl<P: Element> HeldIn<P> for Eps {
    const HELD: () = assert!(!(is_half::<P>(Half::F16) && verdict(1e-8, Half::F16, Part::Term) != 0));
}

fn main() {
    let _ = (f as fn(&_, &_) -> _, g as fn(&_, &_) -> _);
    let _ = Net::<Box<Linear>>::forward as fn(&_, &_, _) -> _;
    to::<BF16>().holds::<Eps>();
    to::<F32>().holds::<Eps>();
}
