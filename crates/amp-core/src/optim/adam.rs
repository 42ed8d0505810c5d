use super::groups::optimizer;
use amp_cpu::optim::UpdateRule;

macro_rules! adam {
    ($(#[$doc:meta])* $name:ident, $op:literal, $weight_decay:literal, $decoupled:literal, $decay_doc:literal) => {
        optimizer! {
            $(#[$doc])*
            $name, $op,
            UpdateRule::Adam {
                lr: 0.0, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: $weight_decay, decoupled: $decoupled, amsgrad: false,
            },
            {
                /// Decay rates of the first and second moment (0.9 and 0.999 by default).
                betas: (f64, f64) => |rule, value| if let UpdateRule::Adam { beta1, beta2, .. } = rule {
                    (*beta1, *beta2) = value;
                };
                /// Added to the denominator (1e-8 by default).
                eps: f64 => |rule, value| if let UpdateRule::Adam { eps, .. } = rule { *eps = value };
                #[doc = $decay_doc]
                weight_decay: f64 => |rule, value| if let UpdateRule::Adam { weight_decay, .. } = rule {
                    *weight_decay = value;
                };
                /// Divides by the greatest second moment so far (off by default).
                amsgrad: bool => |rule, value| if let UpdateRule::Adam { amsgrad, .. } = rule { *amsgrad = value };
            }
        }
    };
}

adam! {
    /// Adam (`torch.optim.Adam`); weight decay is an L2 penalty.
    Adam, "Adam", 0.0, false, "L2 penalty (0 by default)."
}
adam! {
    /// Adam with decoupled weight decay (`torch.optim.AdamW`).
    AdamW, "AdamW", 0.01, true, "Decay of the weights per step, times the learning rate (0.01 by default)."
}
