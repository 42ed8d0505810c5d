//! What all built-in optimizers share: groups of parameters, their state, and the one-pass update.

use super::rates::{Rate, Rates};
use crate::autograd::{Gradients, Unscaled, flat, next_id};
use crate::autograd::{IdMap, IdSet};
use crate::backend::{Buffer, UpdateSettings, UpdateSlot};
use crate::param::{Parameter, ParameterGuard};
use crate::raw::RawTensor;
use crate::{Device, Error, Result};
use amp_cpu::optim::UpdateRule;
use amp_cpu::{DType, lasting};

/// Groups of parameters with settings of their own, and the state of every parameter.
#[derive(Debug)]
pub struct ParameterGroups {
    /// Tells optimizers apart.
    pub(crate) id: u64,
    groups: Vec<Group>,
    all: Vec<Parameter>,
    state: IdMap<State>,
    /// Whether Adam moves only the rows of a sparse gradient, moments included.
    lazy: bool,
    /// The groups' rates where a device reads them, from the first update on.
    rates: Option<Rates>,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) parameters: Vec<Parameter>,
    /// The learning rate that schedules multiply.
    pub(crate) initial_lr: f64,
    pub(crate) rule: UpdateRule,
}

/// What an optimizer remembers of one parameter.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) moments: Vec<Buffer>,
    /// Steps taken: one I64, on the device, so that a skipped step need not be known to the host.
    pub(crate) steps: Buffer,
}

/// What a file says about an optimizer: learning rates of the groups, and moments and steps of the parameters.
pub(crate) struct SavedGroups {
    pub(crate) rates: Vec<[f64; 2]>,
    pub(crate) states: IdMap<(Vec<Buffer>, Buffer)>,
}

impl State {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self { moments: Vec::new(), steps: device.backend().fill(0.0, 1, DType::I64)? })
    }

    /// Makes the state that `rule` needs; a setting that was changed in mid-training keeps what is there.
    fn fit(&mut self, rule: &UpdateRule, len: usize, device: &Device) -> Result<()> {
        self.moments.truncate(rule.moments());
        while self.moments.len() < rule.moments() {
            self.moments.push(lasting(|| device.backend().fill(0.0, len, DType::F32))?);
        }
        Ok(())
    }
}

impl ParameterGroups {
    pub(super) fn new(parameters: impl IntoIterator<Item = Parameter>, lr: f64, rule: UpdateRule) -> Self {
        let (all, state) = Default::default();
        let mut groups = Self { id: next_id(), groups: Vec::new(), all, state, lazy: false, rates: None };
        groups.push(parameters, lr, rule);
        groups
    }

    /// Makes an Adam that moves only the rows of a sparse gradient.
    pub(super) fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// Starts another group with the settings of the last one. A parameter belongs to the group that names it last.
    pub(super) fn next(&mut self, parameters: impl IntoIterator<Item = Parameter>) {
        let (lr, rule) = (self.last().initial_lr, self.last().rule);
        self.push(parameters, lr, rule);
    }

    fn push(&mut self, parameters: impl IntoIterator<Item = Parameter>, initial_lr: f64, rule: UpdateRule) {
        let mut unique: Vec<Parameter> = Vec::new();
        for p in parameters {
            if unique.iter().all(|q| q.id() != p.id()) {
                unique.push(p);
            }
        }
        let ids: IdSet = unique.iter().map(Parameter::id).collect();
        for group in &mut self.groups {
            group.parameters.retain(|p| !ids.contains(&p.id()));
        }
        self.groups.push(Group { parameters: unique, initial_lr, rule });
        self.all = self.groups.iter().flat_map(|g| g.parameters.iter().cloned()).collect();
        self.rates = None;
    }

    fn last(&mut self) -> &mut Group {
        self.groups.last_mut().expect("an optimizer starts with one group")
    }

    /// Changes the last group, as builder methods do, for the device too.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Group)) {
        self.recall();
        change(self.last());
        self.tell();
    }

    /// Learning rate, weight decay and the learning rate to start from of each group, as the host has them.
    fn told(&self) -> Vec<Rate> {
        let rate = |g: &Group| {
            let mut rule = g.rule;
            [*lr(&mut rule), *weight_decay(&mut rule), g.initial_lr]
        };
        self.groups.iter().map(rate).collect()
    }

    /// As [`told`](Self::told), with what a schedule moved on the device; waits if it did.
    fn present(&self) -> Vec<Rate> {
        self.rates.as_ref().and_then(|rates| rates.read().ok()).unwrap_or_else(|| self.told())
    }

    /// Takes over what a schedule moved on the device.
    fn recall(&mut self) {
        let present = self.present();
        for (group, [now, ..]) in self.groups.iter_mut().zip(present) {
            *lr(&mut group.rule) = now;
        }
    }

    /// Tells the device the host's rates. A device that fails says so at the next call that can report it.
    fn tell(&mut self) {
        let told = self.told();
        if let Some(rates) = &mut self.rates
            && rates.write(told).is_err()
        {
            self.rates = None;
        }
    }

    /// The rates on `device`, if updates read them there.
    pub(super) fn rates_on(&mut self, device: &Device) -> Option<&mut Rates> {
        self.rates.as_mut().filter(|rates| rates.device() == device)
    }

    /// An error while a graph of the parameters' device is captured.
    pub(super) fn refuse_recording(&self) -> Result<()> {
        match self.all.first().map(Parameter::device) {
            Some(device) if device.backend().recording() != 0 => {
                let message = "a schedule moves after each replay, with the step that it returns, not within".into();
                Err(Error::Backend { op: "Schedule::step", device: device.name(), message })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn parameters(&self) -> &[Parameter] {
        &self.all
    }

    pub(crate) fn state(&self) -> &IdMap<State> {
        &self.state
    }

    /// Name of the rule, for files.
    pub(crate) fn kind(&self) -> &'static str {
        match self.groups[0].rule {
            UpdateRule::Sgd { .. } => "Sgd",
            UpdateRule::Adam { .. } if self.lazy => "SparseAdam",
            UpdateRule::Adam { decoupled: false, .. } => "Adam",
            UpdateRule::Adam { decoupled: true, .. } => "AdamW",
            UpdateRule::RmsProp { .. } => "RmsProp",
        }
    }

    /// Learning rate that each group was made with, and the present one.
    pub(crate) fn rates(&self) -> Vec<[f64; 2]> {
        self.present().into_iter().map(|[now, _, initial]| [initial, now]).collect()
    }

    /// How many buffers of state the parameter's rule keeps.
    pub(crate) fn moments_of(&self, p: &Parameter) -> usize {
        let group = self.groups.iter().find(|g| g.parameters.iter().any(|q| q.id() == p.id()));
        group.map_or(0, |g| g.rule.moments())
    }

    /// Goes on from a saved state, which was checked.
    pub(crate) fn restore(&mut self, saved: SavedGroups) {
        for (group, [initial, now]) in self.groups.iter_mut().zip(saved.rates) {
            group.initial_lr = initial;
            *lr(&mut group.rule) = now;
        }
        let state = |(id, (moments, steps))| (id, State { moments, steps });
        self.state = saved.states.into_iter().map(state).collect();
        self.tell();
    }

    /// Sets every group's learning rate to `factor` times the one it was made with.
    pub(super) fn schedule(&mut self, factor: f64) {
        for group in &mut self.groups {
            *lr(&mut group.rule) = group.initial_lr * factor;
        }
        self.tell();
    }

    pub(super) fn learning_rate(&self) -> f64 {
        self.present()[0][0]
    }

    /// Updates every parameter that has a gradient, unless the flag `skip` is set.
    pub(crate) fn update(
        &mut self,
        op: &'static str,
        grads: &Gradients<Unscaled>,
        skip: Option<&Buffer>,
    ) -> Result<()> {
        self.groups.iter().try_for_each(|group| validate(op, &group.rule))?;
        let flat = self.gradients(op, grads)?;
        self.prepare_state(&flat)?;
        if let (None, Some(device)) = (&self.rates, self.all.first().map(Parameter::device)) {
            self.rates = Rates::new(device, self.told())?;
        }
        let factors: Vec<&Buffer> = grads.factors.iter().collect();
        // Locked in the order of ids: two optimizers that share parameters cannot wait for each other in a circle.
        let mut masters: Vec<&Parameter> = self.all.iter().filter(|p| flat.contains_key(&p.id())).collect();
        masters.sort_unstable_by_key(|p| p.id());
        let mut guards =
            masters.iter().map(|p| Ok((p.id(), p.write()?))).collect::<Result<Vec<(u64, ParameterGuard<'_>)>>>()?;
        let mut open: IdMap<_> = guards.iter_mut().map(|(id, guard)| (*id, guard.open())).collect();
        let mut states: IdMap<&mut State> = self.state.iter_mut().map(|(&id, state)| (id, state)).collect();
        for (number, group) in self.groups.iter().enumerate() {
            let rates = self.rates.as_ref().map(|rates| (rates.memory(), number));
            let settings = UpdateSettings { rule: &group.rule, rates };
            let (mut slots, mut sparse) = (Vec::new(), Vec::new());
            for id in group.parameters.iter().map(Parameter::id) {
                let (Some((master, copies)), Some(state)) = (open.remove(&id), states.remove(&id)) else { continue };
                let (grad, moments) = (flat[&id].operand()?, &mut state.moments);
                let slot = UpdateSlot { master, grad, moments, copies, steps: &mut state.steps };
                match grads.rows.get(&id).filter(|_| self.lazy || moves_rows(&group.rule)) {
                    Some(which) => sparse.push((slot, which.index.operand()?)),
                    None => slots.push(slot),
                }
            }
            if let Some(first) = group.parameters.first() {
                let backend = first.device().backend();
                if !sparse.is_empty() {
                    backend.update_rows(settings, sparse, &factors, skip)?;
                }
                backend.update(settings, slots, &factors, skip)?;
            }
        }
        Ok(())
    }

    /// The gradients of this optimizer's parameters, as the kernels want them.
    fn gradients(&self, op: &'static str, grads: &Gradients<Unscaled>) -> Result<IdMap<RawTensor>> {
        let device = self.all.first().map(Parameter::device);
        let mut found = IdMap::with_capacity_and_hasher(self.all.len(), Default::default());
        for (group, p) in self.groups.iter().flat_map(|g| g.parameters.iter().map(move |p| (g, p))) {
            let (Some(grad), Some(device)) = (grads.grads.get(&p.id()), device) else { continue };
            p.device().check_same(device, "step")?;
            grad.device().check_same(device, "step")?;
            let grad = match grads.rows.contains_key(&p.id()) && !self.lazy && !moves_rows(&group.rule) {
                true => self.densified(op, grads, &group.rule, p)?,
                false => grad.clone(),
            };
            found.insert(p.id(), flat(&grad)?);
        }
        Ok(found)
    }

    /// A sparse gradient as a dense one, for momentum without weight decay, where both come to the same.
    fn densified(
        &self,
        op: &'static str,
        grads: &Gradients<Unscaled>,
        rule: &UpdateRule,
        p: &Parameter,
    ) -> Result<RawTensor> {
        match (rule, grads.whole(p.id())?) {
            (UpdateRule::Sgd { weight_decay: 0.0, .. }, Some(whole)) => Ok(whole),
            _ => Err(Error::SparseGradient { op, optimizer: self.kind(), parameter: describe(p) }),
        }
    }

    fn prepare_state(&mut self, used: &IdMap<RawTensor>) -> Result<()> {
        for group in &self.groups {
            for p in group.parameters.iter().filter(|p| used.contains_key(&p.id())) {
                let state = match self.state.entry(p.id()) {
                    std::collections::hash_map::Entry::Occupied(slot) => slot.into_mut(),
                    std::collections::hash_map::Entry::Vacant(slot) => slot.insert(State::new(p.device())?),
                };
                state.fit(&group.rule, p.count(), p.device())?;
            }
        }
        Ok(())
    }
}

/// Whether the rule leaves rows without a gradient as they are.
fn moves_rows(rule: &UpdateRule) -> bool {
    matches!(rule, UpdateRule::Sgd { momentum: 0.0, weight_decay: 0.0, .. })
}

/// A parameter in words.
pub(crate) fn describe(p: &Parameter) -> String {
    let (name, dims) = (p.name(), p.dims());
    if name.is_empty() { format!("a parameter of shape {dims:?}") } else { format!("`{name}` of shape {dims:?}") }
}

pub(super) fn lr(rule: &mut UpdateRule) -> &mut f64 {
    match rule {
        UpdateRule::Sgd { lr, .. } | UpdateRule::Adam { lr, .. } | UpdateRule::RmsProp { lr, .. } => lr,
    }
}

fn weight_decay(rule: &mut UpdateRule) -> &mut f64 {
    match rule {
        UpdateRule::Sgd { weight_decay, .. }
        | UpdateRule::Adam { weight_decay, .. }
        | UpdateRule::RmsProp { weight_decay, .. } => weight_decay,
    }
}

/// Settings that make sense, as PyTorch checks them.
fn validate(op: &'static str, rule: &UpdateRule) -> Result<()> {
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
        UpdateRule::Adam { lr, beta1, beta2, eps, weight_decay, .. } => {
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
    }
}

/// Declares an optimizer around its groups: constructor, builder methods, and the trait.
macro_rules! optimizer {
    (
        $(#[$doc:meta])* $name:ident, $op:literal, $start:expr $(, $setup:ident)?,
        { $($(#[$option_doc:meta])* $option:ident: $type:ty => |$rule:ident, $value:ident| $set:expr;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($crate::optim::ParameterGroups);

        impl $name {
            /// An optimizer of these parameters with learning rate `lr`; a parameter given twice counts once.
            pub fn new(
                parameters: impl IntoIterator<Item = $crate::Parameter>,
                lr: f64,
            ) -> Self {
                let mut rule = $start;
                *$crate::optim::groups::lr(&mut rule) = lr;
                Self($crate::optim::ParameterGroups::new(parameters, lr, rule)$(.$setup())?)
            }

            /// Starts another parameter group with the settings so far; the builder calls that follow change it alone.
            ///
            /// A parameter of an earlier group moves to this one.
            pub fn group(mut self, parameters: impl IntoIterator<Item = $crate::Parameter>) -> Self {
                self.0.next(parameters);
                self
            }

            /// Learning rate of the group.
            pub fn lr(mut self, lr: f64) -> Self {
                self.0.change(|group| {
                    group.initial_lr = lr;
                    *$crate::optim::groups::lr(&mut group.rule) = lr;
                });
                self
            }

            $(
                $(#[$option_doc])*
                pub fn $option(mut self, $value: $type) -> Self {
                    self.0.change(|group| {
                        let $rule = &mut group.rule;
                        $set;
                    });
                    self
                }
            )*
        }

        impl $crate::optim::Optimizer for $name {
            fn parameters(&self) -> &[$crate::Parameter] {
                self.0.parameters()
            }

            fn apply(&mut self, grads: &$crate::Gradients) -> $crate::Result<()> {
                self.0.update($op, grads, None)
            }

            fn schedule(&mut self, factor: f64) {
                self.0.schedule(factor);
            }

            fn learning_rate(&self) -> f64 {
                self.0.learning_rate()
            }

            fn groups(&mut self) -> Option<&mut $crate::optim::ParameterGroups> {
                Some(&mut self.0)
            }
        }
    };
}
pub(super) use optimizer;
