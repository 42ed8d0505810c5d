use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

optimizer! {
    /// Adam by the largest magnitude in place of the second moment (`torch.optim.Adamax`, whose learning rate is 0.002 by
    /// default; Kingma and Ba, 2015).
    Adamax, "Adamax",
    UpdateRule::Adamax { lr: 0.0, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 },
    {
        /// Decay rates of the first moment and of the largest magnitude (0.9 and 0.999 by default).
        betas: (f64, f64) => |rule, value| if let UpdateRule::Adamax { beta1, beta2, .. } = rule {
            (*beta1, *beta2) = value;
        };
        /// Added to the gradient's magnitude (1e-8 by default).
        eps: f64 => |rule, value| if let UpdateRule::Adamax { eps, .. } = rule { *eps = value };
        /// L2 penalty (0 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::Adamax { weight_decay, .. } = rule { *weight_decay = value };
    }
}
