use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

optimizer! {
    /// Steps by the sign of the momentum alone (Lion; Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023):
    /// half of Adam's state. Its learning rate is 3 to 10 times smaller than AdamW's, its weight decay as much larger.
    Lion, "Lion",
    UpdateRule::Lion { lr: 0.0, beta1: 0.9, beta2: 0.99, weight_decay: 0.0 },
    {
        /// Share of the momentum in the direction of a step, and its decay (0.9 and 0.99 by default).
        betas: (f64, f64) => |rule, value| if let UpdateRule::Lion { beta1, beta2, .. } = rule { (*beta1, *beta2) = value };
        /// Decay of the weights per step, times the learning rate (0 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::Lion { weight_decay, .. } = rule { *weight_decay = value };
    }
}
