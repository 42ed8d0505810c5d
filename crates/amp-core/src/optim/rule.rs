//! What the groups ask of an update rule, whichever it is.

use crate::{Error, Result};
use amp_cpu::optim::UpdateRule;

/// The learning rate, to read or to set.
pub(super) fn lr(rule: &mut UpdateRule) -> &mut f64 {
    match rule {
        UpdateRule::Sgd { lr, .. }
        | UpdateRule::Adam { lr, .. }
        | UpdateRule::RmsProp { lr, .. }
        | UpdateRule::Adagrad { lr, .. }
        | UpdateRule::Adadelta { lr, .. }
        | UpdateRule::RAdam { lr, .. }
        | UpdateRule::Adamax { lr, .. }
        | UpdateRule::Lion { lr, .. } => lr,
    }
}

/// The weight decay, to read.
pub(super) fn weight_decay(rule: &mut UpdateRule) -> &mut f64 {
    match rule {
        UpdateRule::Sgd { weight_decay, .. }
        | UpdateRule::Adam { weight_decay, .. }
        | UpdateRule::RmsProp { weight_decay, .. }
        | UpdateRule::Adagrad { weight_decay, .. }
        | UpdateRule::Adadelta { weight_decay, .. }
        | UpdateRule::RAdam { weight_decay, .. }
        | UpdateRule::Adamax { weight_decay, .. }
        | UpdateRule::Lion { weight_decay, .. } => weight_decay,
    }
}

/// Settings that make sense, as PyTorch checks them.
pub(super) fn validate(op: &'static str, rule: &UpdateRule) -> Result<()> {
    let at_least_0 = |name, value: f64| match value >= 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(Error::argument(op, name, "finite and at least 0", value)),
    };
    let below_1 = |name, value: f64| match (0.0..1.0).contains(&value) {
        true => Ok(()),
        false => Err(Error::argument(op, name, "at least 0 and below 1", value)),
    };
    match *rule {
        UpdateRule::Sgd { lr, momentum, dampening, nesterov, weight_decay } => {
            at_least_0("the learning rate", lr)?;
            at_least_0("momentum", momentum)?;
            at_least_0("weight_decay", weight_decay)?;
            if nesterov && (momentum == 0.0 || dampening != 0.0) {
                let found = format!("momentum {momentum}, dampening {dampening}");
                return Err(Error::argument(op, "nesterov", "used with momentum and without dampening", found));
            }
            match dampening.is_finite() {
                true => Ok(()),
                false => Err(Error::argument(op, "dampening", "finite", dampening)),
            }
        }
        UpdateRule::Adam { lr, beta1, beta2, eps, weight_decay, .. }
        | UpdateRule::RAdam { lr, beta1, beta2, eps, weight_decay, .. }
        | UpdateRule::Adamax { lr, beta1, beta2, eps, weight_decay } => {
            at_least_0("the learning rate", lr)?;
            below_1("beta1", beta1)?;
            below_1("beta2", beta2)?;
            at_least_0("eps", eps)?;
            at_least_0("weight_decay", weight_decay)
        }
        UpdateRule::RmsProp { lr, alpha, eps, momentum, weight_decay, .. } => {
            at_least_0("the learning rate", lr)?;
            below_1("alpha", alpha)?;
            at_least_0("eps", eps)?;
            at_least_0("momentum", momentum)?;
            at_least_0("weight_decay", weight_decay)
        }
        UpdateRule::Adagrad { lr, lr_decay, initial, eps, weight_decay } => {
            at_least_0("the learning rate", lr)?;
            at_least_0("lr_decay", lr_decay)?;
            at_least_0("initial_accumulator_value", initial)?;
            at_least_0("eps", eps)?;
            at_least_0("weight_decay", weight_decay)
        }
        UpdateRule::Adadelta { lr, rho, eps, weight_decay } => {
            at_least_0("the learning rate", lr)?;
            below_1("rho", rho)?;
            at_least_0("eps", eps)?;
            at_least_0("weight_decay", weight_decay)
        }
        UpdateRule::Lion { lr, beta1, beta2, weight_decay } => {
            at_least_0("the learning rate", lr)?;
            below_1("beta1", beta1)?;
            below_1("beta2", beta2)?;
            at_least_0("weight_decay", weight_decay)
        }
    }
}

/// Whether the rule leaves rows without a gradient as they are.
pub(super) fn moves_rows(rule: &UpdateRule) -> bool {
    matches!(
        rule,
        UpdateRule::Sgd { momentum: 0.0, weight_decay: 0.0, .. } | UpdateRule::Adagrad { weight_decay: 0.0, .. }
    )
}
