//! Rules of updates as their kernel reads them.

use crate::args::{Factors, Parameter, TENSORS, UpdateArgs};
use amp_core::backend::UpdateRule;

/// The settings of a rule, without tensors.
pub(super) fn settings(rule: &UpdateRule, factors: Factors, skip: u64) -> UpdateArgs {
    let none = UpdateArgs {
        tensor: [Parameter::default(); TENSORS],
        factors,
        skip,
        rates: 0,
        lr: 0.0,
        momentum: 0.0,
        dampening: 0.0,
        beta1: 0.0,
        beta2: 0.0,
        eps: 0.0,
        weight_decay: 0.0,
        rule: 0,
        nesterov: 0,
        amsgrad: 0,
        decoupled: 0,
        centered: 0,
    };
    match *rule {
        UpdateRule::Sgd { lr, momentum, dampening, nesterov, weight_decay } => {
            UpdateArgs { lr, momentum, dampening, nesterov: i32::from(nesterov), weight_decay, ..none }
        }
        UpdateRule::Adam { lr, beta1, beta2, eps, weight_decay, decoupled, amsgrad } => UpdateArgs {
            rule: 1,
            lr,
            beta1,
            beta2,
            eps,
            weight_decay,
            decoupled: i32::from(decoupled),
            amsgrad: i32::from(amsgrad),
            ..none
        },
        UpdateRule::RmsProp { lr, alpha, eps, momentum, centered, weight_decay } => {
            UpdateArgs { rule: 2, lr, beta2: alpha, eps, momentum, centered: i32::from(centered), weight_decay, ..none }
        }
        UpdateRule::Adagrad { lr, lr_decay, eps, weight_decay, .. } => {
            UpdateArgs { rule: 3, lr, dampening: lr_decay, eps, weight_decay, ..none }
        }
        UpdateRule::Adadelta { lr, rho, eps, weight_decay } => {
            UpdateArgs { rule: 4, lr, beta2: rho, eps, weight_decay, ..none }
        }
        UpdateRule::RAdam { lr, beta1, beta2, eps, weight_decay, decoupled } => {
            UpdateArgs { rule: 5, lr, beta1, beta2, eps, weight_decay, decoupled: i32::from(decoupled), ..none }
        }
        UpdateRule::Adamax { lr, beta1, beta2, eps, weight_decay } => {
            UpdateArgs { rule: 6, lr, beta1, beta2, eps, weight_decay, ..none }
        }
        UpdateRule::Lion { lr, beta1, beta2, weight_decay } => {
            UpdateArgs { rule: 7, lr, beta1, beta2, weight_decay, decoupled: 1, ..none }
        }
        UpdateRule::NAdam { lr, beta1, beta2, eps, momentum_decay, weight_decay, decoupled } => UpdateArgs {
            rule: 8,
            lr,
            beta1,
            beta2,
            eps,
            dampening: momentum_decay,
            weight_decay,
            decoupled: i32::from(decoupled),
            ..none
        },
    }
}
