//! Adamax (Kingma and Ba 2015, section 7.1).

use super::penalized;
use crate::optim::UpdateSlot;
use crate::simd::{Kernel, Simd};

/// `g += weight_decay p`, `m += new1 (g - m)`, `u = max(beta2 u, |g| + eps)`, `p -= rate m / u`.
pub struct Adamax<'c, 'a> {
    pub rate: f32,
    pub new1: f32,
    pub beta2: f32,
    pub eps: f32,
    pub weight_decay: f32,
    pub factor: f32,
    pub chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Adamax<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [first, largest] = moments.as_mut_slice() else { return };
        let state = master.iter_mut().zip(first.iter_mut()).zip(largest.iter_mut());
        for (((p, m), u), &g) in state.zip(*grad) {
            let g = penalized::<S>(self.weight_decay, *p, g * self.factor);
            *m = S::mul_add(self.new1, g - *m, *m);
            let (kept, seen) = (self.beta2 * *u, g.abs() + self.eps);
            // NaN stays NaN, which `max` would hide.
            *u = if kept > seen { kept } else { seen };
            *p -= self.rate * *m / *u;
        }
    }
}
