use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

optimizer! {
    /// Adam with Nesterov's momentum (`torch.optim.NAdam`, whose learning rate is 0.002 by default; Dozat, 2016): a step adds
    /// the gradient to the first moment, with a momentum that grows from half of `beta1` to all of it.
    ///
    /// What corrects the bias, the product of the momenta of all steps so far, is computed from the number of steps: it is that
    /// of the present settings, where PyTorch's is that of the settings each step had.
    NAdam, "NAdam",
    UpdateRule::NAdam {
        lr: 0.0, beta1: 0.9, beta2: 0.999, eps: 1e-8, momentum_decay: 4e-3, weight_decay: 0.0, decoupled: false,
    },
    {
        /// Decay rates of the first and second moment (0.9 and 0.999 by default).
        betas: (f64, f64) => |rule, value| if let UpdateRule::NAdam { beta1, beta2, .. } = rule { (*beta1, *beta2) = value };
        /// Added to the denominator (1e-8 by default).
        eps: f64 => |rule, value| if let UpdateRule::NAdam { eps, .. } = rule { *eps = value };
        /// How fast the momentum grows: in step `t` it is `beta1 (1 - 0.96^(t momentum_decay) / 2)` (0.004 by default).
        momentum_decay: f64 => |rule, value| if let UpdateRule::NAdam { momentum_decay, .. } = rule {
            *momentum_decay = value;
        };
        /// L2 penalty, or decay of the weights if it is decoupled (0 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::NAdam { weight_decay, .. } = rule { *weight_decay = value };
        /// Weight decay acts on the weights and not on the gradient, as AdamW's (off by default).
        decoupled_weight_decay: bool => |rule, value| if let UpdateRule::NAdam { decoupled, .. } = rule {
            *decoupled = value;
        };
    }
}

#[cfg(test)]
mod tests {
    use super::NAdam;
    use crate::optim::Optimizer;
    use crate::{Device, Error, F32, Parameter, Tensor};

    #[test]
    fn a_momentum_decay_below_0_is_an_error() {
        let w = Parameter::new(&Tensor::<F32>::ones([2], &Device::cpu()).unwrap()).unwrap();
        let grads = w.tensor().sum_all().unwrap().backward().unwrap();
        for decay in [-0.1, f64::NAN, f64::INFINITY] {
            let error = NAdam::new([w.clone()], 0.1).momentum_decay(decay).step(&grads).unwrap_err();
            let expected = format!("NAdam: momentum_decay must be finite and at least 0, found {decay}");
            assert!(matches!(error, Error::Argument { .. }) && error.to_string() == expected, "{error}");
        }
        assert_eq!(w.to_vec().unwrap(), [1.0, 1.0]);
    }
}
