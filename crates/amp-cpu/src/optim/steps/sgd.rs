//! Stochastic gradient descent with momentum (Sutskever et al. 2013), as `torch.optim.SGD`.

use super::penalized;
use crate::optim::UpdateSlot;
use crate::simd::{Kernel, Simd};

/// `g += weight_decay p`, `m = momentum m + entering g`, `p -= lr m`, or `lr (g + momentum m)` with Nesterov's momentum.
pub struct Sgd<'c, 'a> {
    pub lr: f32,
    pub momentum: f32,
    pub entering: f32,
    pub nesterov: bool,
    pub weight_decay: f32,
    pub factor: f32,
    pub chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Sgd<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let direction = |p: f32, g: f32| penalized::<S>(self.weight_decay, p, g * self.factor);
        let Some(momentum) = moments.first_mut() else {
            for (p, &g) in master.iter_mut().zip(*grad) {
                *p -= self.lr * direction(*p, g);
            }
            return;
        };
        for ((p, m), &g) in master.iter_mut().zip(momentum.iter_mut()).zip(*grad) {
            let g = direction(*p, g);
            *m = S::mul_add(self.momentum, *m, self.entering * g);
            let step = if self.nesterov { S::mul_add(self.momentum, *m, g) } else { *m };
            *p -= self.lr * step;
        }
    }
}
