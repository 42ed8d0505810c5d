//! The optimizers' arithmetic on one chunk, with what is the same for all elements computed in F64 beforehand.
//!
//! `p` is the master, `g` the gradient times `factor`.

mod adadelta;
mod adam;
mod adamax;
mod lion;
mod rms_prop;
mod sgd;

pub(super) use adadelta::Adadelta;
pub(super) use adam::Adam;
pub(super) use adamax::Adamax;
pub(super) use lion::Lion;
pub(super) use rms_prop::RmsProp;
pub(super) use sgd::Sgd;

use crate::simd::Simd;

/// A gradient with the penalty for the size of `p`. Without one, `p` is left out: an infinite one times 0 would be NaN.
#[inline(always)]
fn penalized<S: Simd>(weight_decay: f32, p: f32, g: f32) -> f32 {
    if weight_decay == 0.0 { g } else { S::mul_add(weight_decay, p, g) }
}
