//! What the groups ask of an update rule, whichever it is.

use super::muon::NewtonSchulz;
use crate::{Error, Result};
use amp_cpu::optim::UpdateRule;

/// The learning rate.
pub(super) fn lr(rule: &UpdateRule) -> f64 {
    let mut rule = *rule;
    *lr_mut(&mut rule)
}

/// The learning rate, to set it.
pub(super) fn lr_mut(rule: &mut UpdateRule) -> &mut f64 {
    match rule {
        UpdateRule::Sgd { lr, .. }
        | UpdateRule::Adam { lr, .. }
        | UpdateRule::RmsProp { lr, .. }
        | UpdateRule::Adagrad { lr, .. }
        | UpdateRule::Adadelta { lr, .. }
        | UpdateRule::RAdam { lr, .. }
        | UpdateRule::NAdam { lr, .. }
        | UpdateRule::Adamax { lr, .. }
        | UpdateRule::Lion { lr, .. } => lr,
    }
}

/// The weight decay.
pub(super) fn weight_decay(rule: &UpdateRule) -> f64 {
    match *rule {
        UpdateRule::Sgd { weight_decay, .. }
        | UpdateRule::Adam { weight_decay, .. }
        | UpdateRule::RmsProp { weight_decay, .. }
        | UpdateRule::Adagrad { weight_decay, .. }
        | UpdateRule::Adadelta { weight_decay, .. }
        | UpdateRule::RAdam { weight_decay, .. }
        | UpdateRule::NAdam { weight_decay, .. }
        | UpdateRule::Adamax { weight_decay, .. }
        | UpdateRule::Lion { weight_decay, .. } => weight_decay,
    }
}

/// What a group is set to: the rule, and how Muon makes of the momentum what SGD steps by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) rule: UpdateRule,
    pub(crate) newton_schulz: Option<NewtonSchulz>,
}

/// A setting, to be read or changed.
pub(crate) enum Setting<'a> {
    Number(&'a mut f64),
    Count(&'a mut usize),
    Switch(&'a mut bool),
}

impl Settings {
    /// Calls `visit` with every setting but the learning rate, by the name that files have for it.
    pub(crate) fn visit(&mut self, visit: &mut dyn FnMut(&'static str, Setting<'_>)) {
        visit_rule(&mut self.rule, visit);
        if let Some(newton_schulz) = &mut self.newton_schulz {
            newton_schulz.visit(visit);
        }
    }

    /// An error for settings that make no sense; the limits are PyTorch's.
    pub(crate) fn validate(&self, op: &'static str) -> Result<()> {
        validate_rule(op, &self.rule)?;
        self.newton_schulz.map_or(Ok(()), |newton_schulz| newton_schulz.validate(op, &self.rule))
    }
}

fn visit_rule(rule: &mut UpdateRule, visit: &mut dyn FnMut(&'static str, Setting<'_>)) {
    macro_rules! visit {
        ([$($number:ident),*] $([$($switch:ident),*])?) => {{
            $(visit(stringify!($number), Setting::Number($number));)*
            $($(visit(stringify!($switch), Setting::Switch($switch));)*)?
        }};
    }
    // Without `..`: what a rule gets besides has to be visited too.
    match rule {
        UpdateRule::Sgd { lr: _, momentum, dampening, nesterov, weight_decay } => {
            visit!([momentum, dampening, weight_decay][nesterov])
        }
        UpdateRule::Adam { lr: _, beta1, beta2, eps, weight_decay, decoupled, amsgrad } => {
            visit!([beta1, beta2, eps, weight_decay][decoupled, amsgrad])
        }
        UpdateRule::RmsProp { lr: _, alpha, eps, momentum, centered, weight_decay } => {
            visit!([alpha, eps, momentum, weight_decay][centered])
        }
        UpdateRule::Adagrad { lr: _, lr_decay, initial, eps, weight_decay } => {
            visit!([lr_decay, initial, eps, weight_decay])
        }
        UpdateRule::Adadelta { lr: _, rho, eps, weight_decay } => visit!([rho, eps, weight_decay]),
        UpdateRule::RAdam { lr: _, beta1, beta2, eps, weight_decay, decoupled } => {
            visit!([beta1, beta2, eps, weight_decay][decoupled])
        }
        UpdateRule::NAdam { lr: _, beta1, beta2, eps, momentum_decay, weight_decay, decoupled } => {
            visit!([beta1, beta2, eps, momentum_decay, weight_decay][decoupled])
        }
        UpdateRule::Adamax { lr: _, beta1, beta2, eps, weight_decay } => visit!([beta1, beta2, eps, weight_decay]),
        UpdateRule::Lion { lr: _, beta1, beta2, weight_decay } => visit!([beta1, beta2, weight_decay]),
    }
}

fn validate_rule(op: &'static str, rule: &UpdateRule) -> Result<()> {
    let at_least_0 = |name, value: f64| match value >= 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(Error::argument(op, name, "finite and at least 0", value)),
    };
    let below_1 = |name, value: f64| match (0.0..1.0).contains(&value) {
        true => Ok(()),
        false => Err(Error::argument(op, name, "at least 0 and below 1", value)),
    };
    at_least_0("the learning rate", lr(rule))?;
    match *rule {
        UpdateRule::Sgd { momentum, dampening, nesterov, .. } => {
            at_least_0("momentum", momentum)?;
            if nesterov && (momentum == 0.0 || dampening != 0.0) {
                let found = format!("momentum {momentum}, dampening {dampening}");
                return Err(Error::argument(op, "nesterov", "used with momentum and without dampening", found));
            }
            if !dampening.is_finite() {
                return Err(Error::argument(op, "dampening", "finite", dampening));
            }
        }
        UpdateRule::Adam { beta1, beta2, eps, .. }
        | UpdateRule::RAdam { beta1, beta2, eps, .. }
        | UpdateRule::Adamax { beta1, beta2, eps, .. } => {
            below_1("beta1", beta1)?;
            below_1("beta2", beta2)?;
            at_least_0("eps", eps)?;
        }
        UpdateRule::NAdam { beta1, beta2, eps, momentum_decay, .. } => {
            below_1("beta1", beta1)?;
            below_1("beta2", beta2)?;
            at_least_0("eps", eps)?;
            at_least_0("momentum_decay", momentum_decay)?;
        }
        UpdateRule::RmsProp { alpha, eps, momentum, .. } => {
            below_1("alpha", alpha)?;
            at_least_0("eps", eps)?;
            at_least_0("momentum", momentum)?;
        }
        UpdateRule::Adagrad { lr_decay, initial, eps, .. } => {
            at_least_0("lr_decay", lr_decay)?;
            at_least_0("initial_accumulator_value", initial)?;
            at_least_0("eps", eps)?;
        }
        UpdateRule::Adadelta { rho, eps, .. } => {
            below_1("rho", rho)?;
            at_least_0("eps", eps)?;
        }
        UpdateRule::Lion { beta1, beta2, .. } => {
            below_1("beta1", beta1)?;
            below_1("beta2", beta2)?;
        }
    }
    at_least_0("weight_decay", weight_decay(rule))
}

/// The rule for a gradient that its momentum has entered.
pub(super) fn without_momentum(rule: &UpdateRule) -> UpdateRule {
    match *rule {
        UpdateRule::Sgd { lr, weight_decay, .. } => {
            UpdateRule::Sgd { lr, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay }
        }
        other => other,
    }
}

/// Whether the rule leaves rows without a gradient as they are.
pub(super) fn moves_rows(rule: &UpdateRule) -> bool {
    matches!(
        rule,
        UpdateRule::Sgd { momentum: 0.0, weight_decay: 0.0, .. } | UpdateRule::Adagrad { weight_decay: 0.0, .. }
    )
}
