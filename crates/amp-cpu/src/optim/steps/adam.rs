//! Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), AMSGrad (Reddi et al. 2018), RAdam (Liu et al. 2020)
//! and NAdam (Dozat 2016).

use super::penalized;
use crate::optim::UpdateSlot;
use crate::simd::{Kernel, Simd};

/// `g += penalty p`, `m += new1 (g - m)`, `v = beta2 v + new2 g²`, `p = keep p - (rate m + ahead g) / (root2 √v + eps)`; of
/// `v` its maximum so far where there is a third moment.
pub struct Adam<'c, 'a> {
    pub rate: f32,
    pub ahead: f32,
    pub new1: f32,
    pub beta2: f32,
    pub new2: f32,
    pub root2: f32,
    pub eps: f32,
    pub penalty: f32,
    pub keep: f32,
    pub factor: f32,
    pub chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Adam<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [first, second, rest @ ..] = moments.as_mut_slice() else { return };
        let moment = |p: f32, g: f32, m: &mut f32, v: &mut f32| {
            let g = penalized::<S>(self.penalty, p, g * self.factor);
            *m = S::mul_add(self.new1, g - *m, *m);
            *v = S::mul_add(self.new2, g * g, self.beta2 * *v);
            g
        };
        let moved = |p: f32, g: f32, m: f32, v: f32| {
            self.keep * p - S::mul_add(self.ahead, g, self.rate * m) / S::mul_add(v.sqrt(), self.root2, self.eps)
        };
        let state = master.iter_mut().zip(first.iter_mut()).zip(second.iter_mut());
        match rest.first_mut() {
            None => {
                for (((p, m), v), &g) in state.zip(*grad) {
                    let g = moment(*p, g, m, v);
                    *p = moved(*p, g, *m, *v);
                }
            }
            Some(greatest) => {
                for ((((p, m), v), top), &g) in state.zip(greatest.iter_mut()).zip(*grad) {
                    let g = moment(*p, g, m, v);
                    // NaN stays NaN, which `max` would hide.
                    *top = if *top > *v { *top } else { *v };
                    *p = moved(*p, g, *m, *top);
                }
            }
        }
    }
}
