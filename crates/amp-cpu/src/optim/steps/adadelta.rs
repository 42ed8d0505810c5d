//! Adadelta (Zeiler 2012).

use super::penalized;
use crate::optim::UpdateSlot;
use crate::simd::{Kernel, Simd};

/// `g += weight_decay p`, `v = rho v + new g²`, `step = √(d + eps) / √(v + eps) g`, `d = rho d + new step²`,
/// `p -= lr step`.
pub struct Adadelta<'c, 'a> {
    pub lr: f32,
    pub rho: f32,
    pub new: f32,
    pub eps: f32,
    pub weight_decay: f32,
    pub factor: f32,
    pub chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Adadelta<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [square, moved] = moments.as_mut_slice() else { return };
        let state = master.iter_mut().zip(square.iter_mut()).zip(moved.iter_mut());
        for (((p, v), d), &g) in state.zip(*grad) {
            let g = penalized::<S>(self.weight_decay, *p, g * self.factor);
            *v = S::mul_add(self.new, g * g, self.rho * *v);
            let step = (*d + self.eps).sqrt() / (*v + self.eps).sqrt() * g;
            *d = S::mul_add(self.new, step * step, self.rho * *d);
            *p -= self.lr * step;
        }
    }
}
