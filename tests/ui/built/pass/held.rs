//! What the region's precision holds is accepted, and so is every number that a tensor is only held against; a variable may have a
//! constant's name.

use amp::__private::{Element, Half, HeldIn, is_half, to, verdict};
use amp::{nn::Linear, prelude::*};

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

struct Eps;

impl<P: Element> HeldIn<P> for Eps {
    const HELD: () = assert!(!(is_half::<P>(Half::F16) && verdict(1e-8, Half::F16, false) != 0));
}

fn main() {
    let _ = (f as fn(&_, &_) -> _, g as fn(&_, &_) -> _);
    to::<BF16>().holds::<Eps>();
    to::<F32>().holds::<Eps>();
}
