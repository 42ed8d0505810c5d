//! The optimizers' arithmetic on one chunk.

use super::UpdateSlot;
use crate::simd::{Kernel, Simd, dispatch};

/// An optimizer with its settings; arithmetic and names are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpdateRule {
    /// Stochastic gradient descent. State: the momentum buffer, if `momentum` is not 0.
    Sgd {
        /// Learning rate
        lr: f64,
        /// Share of the last update's direction that is kept
        momentum: f64,
        /// Share of the gradient that does not enter the momentum buffer
        dampening: f64,
        /// Looks one step ahead along the momentum
        nesterov: bool,
        /// L2 penalty, added to the gradient
        weight_decay: f64,
    },
    /// Adam, or AdamW when `decoupled`. State: first moment, second moment, and its maximum if `amsgrad`.
    Adam {
        /// Learning rate
        lr: f64,
        /// Decay of the first moment
        beta1: f64,
        /// Decay of the second moment
        beta2: f64,
        /// Added to the denominator
        eps: f64,
        /// L2 penalty, or direct decay of the weights when `decoupled`
        weight_decay: f64,
        /// Weight decay acts on the weights and not on the gradient
        decoupled: bool,
        /// Divides by the greatest second moment so far
        amsgrad: bool,
    },
    /// RMSprop. State: mean square, then mean gradient if `centered`, then the momentum buffer if `momentum` is not 0.
    RmsProp {
        /// Learning rate
        lr: f64,
        /// Decay of the mean square
        alpha: f64,
        /// Added to the denominator
        eps: f64,
        /// Share of the last update's direction that is kept
        momentum: f64,
        /// Divides by the standard deviation instead of the root mean square
        centered: bool,
        /// L2 penalty, added to the gradient
        weight_decay: f64,
    },
    /// Adagrad. State: the sum of squares so far.
    Adagrad {
        /// Learning rate
        lr: f64,
        /// The learning rate of step `t` is divided by `1 + (t - 1) lr_decay`
        lr_decay: f64,
        /// What the sum of squares starts at
        initial: f64,
        /// Added to the denominator
        eps: f64,
        /// L2 penalty, added to the gradient
        weight_decay: f64,
    },
    /// Adadelta. State: mean square of the gradients, mean square of the updates.
    Adadelta {
        /// Learning rate
        lr: f64,
        /// Decay of the mean squares
        rho: f64,
        /// Added to the mean squares under their roots
        eps: f64,
        /// L2 penalty, added to the gradient
        weight_decay: f64,
    },
    /// RAdam. State: first moment, second moment.
    RAdam {
        /// Learning rate
        lr: f64,
        /// Decay of the first moment
        beta1: f64,
        /// Decay of the second moment
        beta2: f64,
        /// Added to the denominator
        eps: f64,
        /// L2 penalty, or direct decay of the weights when `decoupled`
        weight_decay: f64,
        /// Weight decay acts on the weights and not on the gradient
        decoupled: bool,
    },
    /// Adamax. State: first moment, largest magnitude.
    Adamax {
        /// Learning rate
        lr: f64,
        /// Decay of the first moment
        beta1: f64,
        /// Decay of the largest magnitude
        beta2: f64,
        /// Added to the gradient's magnitude
        eps: f64,
        /// L2 penalty, added to the gradient
        weight_decay: f64,
    },
    /// Lion. State: the momentum.
    Lion {
        /// Learning rate
        lr: f64,
        /// Share of the momentum in the direction of a step
        beta1: f64,
        /// Decay of the momentum
        beta2: f64,
        /// Direct decay of the weights
        weight_decay: f64,
    },
}

impl UpdateRule {
    /// The F32 buffers of state that each parameter has, by what they hold.
    pub fn moments(&self) -> &'static [&'static str] {
        match *self {
            Self::Sgd { momentum: 0.0, .. } => &[],
            Self::Sgd { .. } | Self::Lion { .. } => &["momentum"],
            Self::Adam { amsgrad: false, .. } | Self::RAdam { .. } => &["first", "second"],
            Self::Adam { amsgrad: true, .. } => &["first", "second", "largest"],
            Self::RmsProp { momentum, centered, .. } => match (centered, momentum != 0.0) {
                (false, false) => &["square"],
                (false, true) => &["square", "momentum"],
                (true, false) => &["square", "mean"],
                (true, true) => &["square", "mean", "momentum"],
            },
            Self::Adagrad { .. } => &["sum"],
            Self::Adadelta { .. } => &["square", "update"],
            Self::Adamax { .. } => &["first", "largest"],
        }
    }

    /// What the state starts at.
    pub fn start(&self) -> f64 {
        if let Self::Adagrad { initial, .. } = *self { initial } else { 0.0 }
    }

    /// Updates one chunk: master and moments.
    pub(super) fn apply(&self, factor: f32, chunk: &mut UpdateSlot<'_>) {
        match *self {
            Self::Sgd { lr, momentum, dampening, nesterov, weight_decay } => dispatch(Sgd {
                lr: lr as f32,
                momentum: momentum as f32,
                // The first update takes the whole gradient.
                entering: if chunk.step <= 1 { 1.0 } else { (1.0 - dampening) as f32 },
                nesterov,
                weight_decay: weight_decay as f32,
                factor,
                chunk,
            }),
            Self::Adam { lr, beta1, beta2, eps, weight_decay, decoupled, .. } => {
                let step = chunk.step.min(i32::MAX as u64) as i32;
                let correction2 = 1.0 - beta2.powi(step);
                dispatch(Adam {
                    rate: (lr / (1.0 - beta1.powi(step))) as f32,
                    new1: (1.0 - beta1) as f32,
                    beta2: beta2 as f32,
                    new2: (1.0 - beta2) as f32,
                    root2: correction2.sqrt().recip() as f32,
                    eps: eps as f32,
                    penalty: if decoupled { 0.0 } else { weight_decay as f32 },
                    keep: if decoupled { (1.0 - lr * weight_decay) as f32 } else { 1.0 },
                    factor,
                    chunk,
                });
            }
            Self::RmsProp { lr, alpha, eps, momentum, centered, weight_decay } => dispatch(RmsProp {
                lr: lr as f32,
                alpha: alpha as f32,
                new: (1.0 - alpha) as f32,
                eps: eps as f32,
                momentum: momentum as f32,
                centered,
                weight_decay: weight_decay as f32,
                factor,
                chunk,
            }),
            // RMSprop that forgets nothing.
            Self::Adagrad { lr, lr_decay, eps, weight_decay, .. } => dispatch(RmsProp {
                lr: (lr / (1.0 + (chunk.step.max(1) - 1) as f64 * lr_decay)) as f32,
                alpha: 1.0,
                new: 1.0,
                eps: eps as f32,
                momentum: 0.0,
                centered: false,
                weight_decay: weight_decay as f32,
                factor,
                chunk,
            }),
            Self::Adadelta { lr, rho, eps, weight_decay } => dispatch(Adadelta {
                lr: lr as f32,
                rho: rho as f32,
                new: (1.0 - rho) as f32,
                eps: eps as f32,
                weight_decay: weight_decay as f32,
                factor,
                chunk,
            }),
            Self::RAdam { lr, beta1, beta2, eps, weight_decay, decoupled } => {
                let step = chunk.step.min(i32::MAX as u64) as i32;
                let [rectified, root2, eps] = rectified(beta2, step, eps);
                dispatch(Adam {
                    rate: (lr * rectified / (1.0 - beta1.powi(step))) as f32,
                    new1: (1.0 - beta1) as f32,
                    beta2: beta2 as f32,
                    new2: (1.0 - beta2) as f32,
                    root2: root2 as f32,
                    eps: eps as f32,
                    penalty: if decoupled { 0.0 } else { weight_decay as f32 },
                    keep: if decoupled { (1.0 - lr * weight_decay) as f32 } else { 1.0 },
                    factor,
                    chunk,
                });
            }
            Self::Adamax { lr, beta1, beta2, eps, weight_decay } => dispatch(Adamax {
                rate: (lr / (1.0 - beta1.powi(chunk.step.min(i32::MAX as u64) as i32))) as f32,
                new1: (1.0 - beta1) as f32,
                beta2: beta2 as f32,
                eps: eps as f32,
                weight_decay: weight_decay as f32,
                factor,
                chunk,
            }),
            Self::Lion { lr, beta1, beta2, weight_decay } => dispatch(Lion {
                lr: lr as f32,
                beta1: beta1 as f32,
                new1: (1.0 - beta1) as f32,
                beta2: beta2 as f32,
                new2: (1.0 - beta2) as f32,
                keep: (1.0 - lr * weight_decay) as f32,
                factor,
                chunk,
            }),
        }
    }
}

/// What RAdam's step `t` multiplies the first moment by, and how it divides by the second: `r m / (root2 √v + eps)`.
///
/// Before the variance of the adaptive rate is finite (length of the average at most 5, as in PyTorch), the step is that
/// of momentum alone.
fn rectified(beta2: f64, t: i32, eps: f64) -> [f64; 3] {
    let (longest, correction2) = (2.0 / (1.0 - beta2) - 1.0, 1.0 - beta2.powi(t));
    let length = longest - 2.0 * f64::from(t) * beta2.powi(t) / correction2;
    if length <= 5.0 {
        return [1.0, 0.0, 1.0];
    }
    let shares = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length);
    [shares.sqrt() * correction2.sqrt(), 1.0, eps]
}

struct Sgd<'c, 'a> {
    lr: f32,
    momentum: f32,
    entering: f32,
    nesterov: bool,
    weight_decay: f32,
    factor: f32,
    chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Sgd<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let direction = |p: f32, g: f32| S::mul_add(self.weight_decay, p, g * self.factor);
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

struct Adam<'c, 'a> {
    rate: f32,
    new1: f32,
    beta2: f32,
    new2: f32,
    root2: f32,
    eps: f32,
    penalty: f32,
    keep: f32,
    factor: f32,
    chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Adam<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [first, second, rest @ ..] = moments.as_mut_slice() else { return };
        let moment = |p: f32, g: f32, m: &mut f32, v: &mut f32| {
            let g = S::mul_add(self.penalty, p, g * self.factor);
            *m = S::mul_add(self.new1, g - *m, *m);
            *v = S::mul_add(self.new2, g * g, self.beta2 * *v);
        };
        let moved = |p: f32, m: f32, v: f32| self.keep * p - self.rate * m / S::mul_add(v.sqrt(), self.root2, self.eps);
        let state = master.iter_mut().zip(first.iter_mut()).zip(second.iter_mut());
        match rest.first_mut() {
            None => {
                for (((p, m), v), &g) in state.zip(*grad) {
                    moment(*p, g, m, v);
                    *p = moved(*p, *m, *v);
                }
            }
            Some(greatest) => {
                for ((((p, m), v), top), &g) in state.zip(greatest.iter_mut()).zip(*grad) {
                    moment(*p, g, m, v);
                    *top = top.max(*v);
                    *p = moved(*p, *m, *top);
                }
            }
        }
    }
}

struct RmsProp<'c, 'a> {
    lr: f32,
    alpha: f32,
    new: f32,
    eps: f32,
    momentum: f32,
    centered: bool,
    weight_decay: f32,
    factor: f32,
    chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for RmsProp<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [square, rest @ ..] = moments.as_mut_slice() else { return };
        for i in 0..master.len() {
            let g = S::mul_add(self.weight_decay, master[i], grad[i] * self.factor);
            square[i] = S::mul_add(self.new, g * g, self.alpha * square[i]);
            let mut spread = square[i];
            if self.centered {
                rest[0][i] = S::mul_add(self.new, g - rest[0][i], rest[0][i]);
                // Rounding may leave the variance of a constant gradient slightly below 0.
                spread = (spread - rest[0][i] * rest[0][i]).max(0.0);
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

struct Adadelta<'c, 'a> {
    lr: f32,
    rho: f32,
    new: f32,
    eps: f32,
    weight_decay: f32,
    factor: f32,
    chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Adadelta<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [square, moved] = moments.as_mut_slice() else { return };
        let state = master.iter_mut().zip(square.iter_mut()).zip(moved.iter_mut());
        for (((p, v), d), &g) in state.zip(*grad) {
            let g = S::mul_add(self.weight_decay, *p, g * self.factor);
            *v = S::mul_add(self.new, g * g, self.rho * *v);
            let step = (*d + self.eps).sqrt() / (*v + self.eps).sqrt() * g;
            *d = S::mul_add(self.new, step * step, self.rho * *d);
            *p -= self.lr * step;
        }
    }
}

struct Adamax<'c, 'a> {
    rate: f32,
    new1: f32,
    beta2: f32,
    eps: f32,
    weight_decay: f32,
    factor: f32,
    chunk: &'c mut UpdateSlot<'a>,
}

impl Kernel for Adamax<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let UpdateSlot { master, grad, moments, .. } = self.chunk;
        let [first, largest] = moments.as_mut_slice() else { return };
        let state = master.iter_mut().zip(first.iter_mut()).zip(largest.iter_mut());
        for (((p, m), u), &g) in state.zip(*grad) {
            let g = S::mul_add(self.weight_decay, *p, g * self.factor);
            *m = S::mul_add(self.new1, g - *m, *m);
            let (kept, seen) = (self.beta2 * *u, g.abs() + self.eps);
            // NaN stays NaN, which `max` would hide.
            *u = if kept > seen { kept } else { seen };
            *p -= self.rate * *m / *u;
        }
    }
}

struct Lion<'c, 'a> {
    lr: f32,
    beta1: f32,
    new1: f32,
    beta2: f32,
    new2: f32,
    keep: f32,
    factor: f32,
    chunk: &'c mut UpdateSlot<'a>,
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
