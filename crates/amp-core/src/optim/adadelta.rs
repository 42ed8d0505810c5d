use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

optimizer! {
    /// Adadelta (`torch.optim.Adadelta`, whose learning rate is 1 by default).
    Adadelta, "Adadelta",
    UpdateRule::Adadelta { lr: 0.0, rho: 0.9, eps: 1e-6, weight_decay: 0.0 },
    {
        /// Decay of the mean squares of gradients and updates (0.9 by default).
        rho: f64 => |rule, value| if let UpdateRule::Adadelta { rho, .. } = rule { *rho = value };
        /// Added to the mean squares under their roots (1e-6 by default).
        eps: f64 => |rule, value| if let UpdateRule::Adadelta { eps, .. } = rule { *eps = value };
        /// L2 penalty (0 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::Adadelta { weight_decay, .. } = rule { *weight_decay = value };
    }
}
