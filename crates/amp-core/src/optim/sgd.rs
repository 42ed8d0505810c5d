use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

optimizer! {
    /// Stochastic gradient descent with momentum (`torch.optim.SGD`).
    ///
    /// ```
    /// # use amp_core::{optim::Sgd, Device, Parameter, Tensor};
    /// # let device = Device::cpu();
    /// # let (weights, biases) = (vec![Parameter::new(&Tensor::ones([2], &device)?)?], vec![]);
    /// let optimizer = Sgd::new(weights, 0.1).momentum(0.9).weight_decay(1e-4).group(biases).weight_decay(0.0);
    /// # Ok::<_, amp_core::Error>(())
    /// ```
    Sgd, "Sgd",
    UpdateRule::Sgd { lr: 0.0, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 },
    {
        /// Share of the last update's direction that is kept (0 by default).
        momentum: f64 => |rule, value| if let UpdateRule::Sgd { momentum, .. } = rule { *momentum = value };
        /// Share of the gradient that does not enter the momentum buffer (0 by default).
        dampening: f64 => |rule, value| if let UpdateRule::Sgd { dampening, .. } = rule { *dampening = value };
        /// Nesterov momentum (off by default); needs momentum and no dampening.
        nesterov: bool => |rule, value| if let UpdateRule::Sgd { nesterov, .. } = rule { *nesterov = value };
        /// L2 penalty (0 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::Sgd { weight_decay, .. } = rule { *weight_decay = value };
    }
}
