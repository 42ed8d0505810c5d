use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

optimizer! {
    /// Adam with a rectified learning rate (`torch.optim.RAdam`; Liu et al., 2020): while too few gradients were seen for the
    /// variance of Adam's rate to be finite, steps are those of momentum, which makes a warm-up unnecessary.
    RAdam, "RAdam",
    UpdateRule::RAdam { lr: 0.0, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, decoupled: false },
    {
        /// Decay rates of the first and second moment (0.9 and 0.999 by default).
        betas: (f64, f64) => |rule, value| if let UpdateRule::RAdam { beta1, beta2, .. } = rule { (*beta1, *beta2) = value };
        /// Added to the denominator (1e-8 by default).
        eps: f64 => |rule, value| if let UpdateRule::RAdam { eps, .. } = rule { *eps = value };
        /// L2 penalty, or decay of the weights if it is decoupled (0 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::RAdam { weight_decay, .. } = rule { *weight_decay = value };
        /// Weight decay acts on the weights and not on the gradient, as AdamW's (off by default).
        decoupled_weight_decay: bool => |rule, value| if let UpdateRule::RAdam { decoupled, .. } = rule {
            *decoupled = value;
        };
    }
}
