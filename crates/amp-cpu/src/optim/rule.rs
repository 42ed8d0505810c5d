//! The optimizers, their settings and what a step makes of them.

use super::UpdateSlot;
use super::steps::{Adadelta, Adam, Adamax, Lion, RmsProp, Sgd};
use crate::simd::dispatch;

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
    /// NAdam. State: first moment, second moment.
    NAdam {
        /// Learning rate
        lr: f64,
        /// Decay of the first moment
        beta1: f64,
        /// Decay of the second moment
        beta2: f64,
        /// Added to the denominator
        eps: f64,
        /// How fast the momentum of a step grows from half of `beta1` to all of it
        momentum_decay: f64,
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
            Self::Adam { amsgrad: false, .. } | Self::RAdam { .. } | Self::NAdam { .. } => &["first", "second"],
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

    /// What the number of a step makes of the settings of Adam and its kin: the factors of the first moment, of the gradient and of
    /// the second moment's root, and what is added to that. Others have none.
    pub(super) fn correction(&self, step: u64) -> [f64; 4] {
        let step = in_range(step);
        let root2 = |beta2: f64| (1.0 - beta2.powi(step)).sqrt().recip();
        match *self {
            Self::Adam { beta1, beta2, eps, .. } => [(1.0 - beta1.powi(step)).recip(), 0.0, root2(beta2), eps],
            Self::RAdam { beta1, beta2, eps, .. } => {
                let [rectified, root2, eps] = rectified(beta2, step, eps);
                [rectified / (1.0 - beta1.powi(step)), 0.0, root2, eps]
            }
            Self::NAdam { beta1, beta2, eps, momentum_decay, .. } => {
                let [moment, gradient] = nesterov(beta1, step, momentum_decay);
                [moment, gradient, root2(beta2), eps]
            }
            _ => [0.0; 4],
        }
    }

    /// Updates one chunk, master and moments, with the [`correction`](Self::correction) of its step.
    pub(super) fn apply(&self, factor: f32, correction: [f64; 4], chunk: &mut UpdateSlot<'_>) {
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
            Self::Adam { lr, beta1, beta2, weight_decay, decoupled, .. }
            | Self::RAdam { lr, beta1, beta2, weight_decay, decoupled, .. }
            | Self::NAdam { lr, beta1, beta2, weight_decay, decoupled, .. } => {
                let [moment, gradient, root2, eps] = correction;
                dispatch(Adam {
                    rate: (lr * moment) as f32,
                    ahead: (lr * gradient) as f32,
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
            Self::Adamax { lr, beta1, beta2, eps, weight_decay } => dispatch(Adamax {
                rate: (lr / (1.0 - beta1.powi(in_range(chunk.step)))) as f32,
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

/// The number of a step as an exponent.
fn in_range(step: u64) -> i32 {
    step.min(i32::MAX as u64) as i32
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

/// What NAdam's step `t` multiplies the first moment and the gradient by: `mu` grows with the steps, and what corrects the
/// bias is the product of all of them so far.
fn nesterov(beta1: f64, t: i32, decay: f64) -> [f64; 2] {
    let mu = |power: f64| beta1 * (1.0 - 0.5 * power);
    let (factor, mut power, mut product, mut i) = (0.96f64.powf(decay), 1.0, 1.0, 0);
    // A product this small changes no correction: it need not be kept over steps, as PyTorch keeps it.
    while i < t && product > f64::EPSILON / 4.0 {
        power *= factor;
        product *= mu(power);
        i += 1;
    }
    let [now, next] = [t, t + 1].map(|t| mu(0.96f64.powf(f64::from(t) * decay)));
    [next / (1.0 - product * next), (1.0 - now) / (1.0 - product)]
}

#[cfg(test)]
mod tests {
    use super::nesterov;

    #[test]
    fn a_momentum_that_grows_is_corrected_as_if_its_product_were_kept() {
        for (beta1, decay) in [(0.9, 4e-3), (0.9, 2.0), (0.99, 0.5), (0.0, 4e-3), (0.5, 0.0)] {
            let mu = |t: i32| beta1 * (1.0 - 0.5 * 0.96f64.powf(f64::from(t) * decay));
            let mut product = 1.0;
            for t in 1..3000 {
                product *= mu(t);
                let expected = [mu(t + 1) / (1.0 - product * mu(t + 1)), (1.0 - mu(t)) / (1.0 - product)];
                for (found, expected) in nesterov(beta1, t, decay).into_iter().zip(expected) {
                    assert!((found - expected).abs() <= 1e-13 * expected, "{beta1} {decay} {t}: {found} {expected}");
                }
            }
        }
    }
}
