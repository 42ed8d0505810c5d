use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

optimizer! {
    /// Adagrad (`torch.optim.Adagrad`). Without a penalty, only the rows of a sparse gradient are read and written: what has
    /// no gradient does not move.
    Adagrad, "Adagrad",
    UpdateRule::Adagrad { lr: 0.0, lr_decay: 0.0, initial: 0.0, eps: 1e-10, weight_decay: 0.0 },
    {
        /// The learning rate of step `t` is divided by `1 + (t - 1) lr_decay` (0 by default).
        lr_decay: f64 => |rule, value| if let UpdateRule::Adagrad { lr_decay, .. } = rule { *lr_decay = value };
        /// What sums of squares start at (0 by default); those that have begun stay as they are.
        initial_accumulator_value: f64 => |rule, value| if let UpdateRule::Adagrad { initial, .. } = rule {
            *initial = value;
        };
        /// Added to the denominator (1e-10 by default).
        eps: f64 => |rule, value| if let UpdateRule::Adagrad { eps, .. } = rule { *eps = value };
        /// L2 penalty (0 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::Adagrad { weight_decay, .. } = rule { *weight_decay = value };
    }
}
