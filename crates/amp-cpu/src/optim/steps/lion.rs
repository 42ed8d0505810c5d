//! Lion (Chen et al. 2023).

use crate::optim::UpdateSlot;
use crate::simd::{Kernel, Simd};

/// `p = keep p - lr sign(beta1 m + new1 g)`, then `m = beta2 m + new2 g`.
pub struct Lion<'c, 'a> {
    pub lr: f32,
    pub beta1: f32,
    pub new1: f32,
    pub beta2: f32,
    pub new2: f32,
    pub keep: f32,
    pub factor: f32,
    pub chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Lion<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [momentum] = moments.as_mut_slice() else { return };
        for ((p, m), &g) in master.iter_mut().zip(momentum.iter_mut()).zip(*grad) {
            let g = g * self.factor;
            let direction = S::mul_add(self.beta1, *m, self.new1 * g);
            // Of NaN the sign is NaN, as in PyTorch: a step that ignored it would hide it.
            let sign = if direction > 0.0 {
                1.0
            } else if direction < 0.0 {
                -1.0
            } else {
                direction
            };
            *p = S::mul_add(-self.lr, sign, self.keep * *p);
            *m = S::mul_add(self.new2, g, self.beta2 * *m);
        }
    }
}
