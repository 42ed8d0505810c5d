//! RMSprop (Hinton 2012; centered: Graves 2013) and, where nothing is forgotten, Adagrad (Duchi et al. 2011).

use super::penalized;
use crate::optim::UpdateSlot;
use crate::simd::{Kernel, Simd};

/// `g += weight_decay p`, `v = alpha v + new g²`, less the squared mean gradient where that is kept,
/// `p -= lr g / (√v + eps)`, by way of a momentum buffer where there is one.
pub struct RmsProp<'c, 'a> {
    pub lr: f32,
    pub alpha: f32,
    pub new: f32,
    pub eps: f32,
    pub momentum: f32,
    pub centered: bool,
    pub weight_decay: f32,
    pub factor: f32,
    pub chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for RmsProp<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [square, rest @ ..] = moments.as_mut_slice() else { return };
        for i in 0..master.len() {
            let g = penalized::<S>(self.weight_decay, master[i], grad[i] * self.factor);
            square[i] = S::mul_add(self.new, g * g, self.alpha * square[i]);
            let mut spread = square[i];
            if self.centered {
                rest[0][i] = S::mul_add(self.new, g - rest[0][i], rest[0][i]);
                spread -= rest[0][i] * rest[0][i];
                // Rounding may leave the variance of a constant gradient slightly below 0; `max` would hide NaN.
                spread = if spread < 0.0 { 0.0 } else { spread };
            }
            let mut step = g / (spread.sqrt() + self.eps);
            if let Some(momentum) = rest.get_mut(usize::from(self.centered)) {
                momentum[i] = S::mul_add(self.momentum, momentum[i], step);
                step = momentum[i];
            }
            master[i] -= self.lr * step;
        }
    }
}
