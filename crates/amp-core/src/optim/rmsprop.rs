use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

optimizer! {
    /// RMSprop (`torch.optim.RMSprop`).
    RmsProp, "RmsProp",
    UpdateRule::RmsProp { lr: 0.0, alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: false, weight_decay: 0.0 },
    {
        /// Decay of the mean square (0.99 by default).
        alpha: f64 => |rule, value| if let UpdateRule::RmsProp { alpha, .. } = rule { *alpha = value };
        /// Added to the denominator (1e-8 by default).
        eps: f64 => |rule, value| if let UpdateRule::RmsProp { eps, .. } = rule { *eps = value };
        /// Share of the last update's direction that is kept (0 by default).
        momentum: f64 => |rule, value| if let UpdateRule::RmsProp { momentum, .. } = rule { *momentum = value };
        /// Divides by the standard deviation instead of the root mean square (off by default).
        centered: bool => |rule, value| if let UpdateRule::RmsProp { centered, .. } = rule { *centered = value };
        /// L2 penalty (0 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::RmsProp { weight_decay, .. } = rule { *weight_decay = value };
    }
}
