//! What all built-in optimizers share: groups of parameters and their state.

use super::muon::NewtonSchulz;
use super::rates::{Rate, Rates};
use super::rule::{Settings, lr, lr_mut, weight_decay};
use crate::autograd::{IdMap, IdSet, next_id};
use crate::backend::Buffer;
use crate::param::Parameter;
use crate::{Device, Error, Result};
use amp_cpu::optim::UpdateRule;
use amp_cpu::{DType, lasting};

/// Groups of parameters with settings of their own, and the state of every parameter.
#[derive(Debug)]
pub struct ParameterGroups {
    /// Tells optimizers apart.
    pub(crate) id: u64,
    pub(super) groups: Vec<Group>,
    pub(super) all: Vec<Parameter>,
    /// The first parameter that is in two groups: builder methods cannot fail, so the next update reports it.
    twice: Option<Parameter>,
    pub(super) state: IdMap<State>,
    /// Whether Adam moves only the rows of a sparse gradient, moments included.
    pub(super) lazy: bool,
    /// The groups' rates in device memory, from the first update on.
    pub(super) rates: Option<Rates>,
}

// A module may hold an optimizer: its parameters are handles of ones that some model visits (see `nn::derive`).
impl Unpin for ParameterGroups {}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) parameters: Vec<Parameter>,
    /// The learning rate that schedules multiply.
    pub(crate) initial_lr: f64,
    pub(crate) rule: UpdateRule,
    /// How Muon makes of the momentum what SGD steps by.
    pub(super) newton_schulz: Option<NewtonSchulz>,
}

impl Group {
    pub(super) fn settings(&self) -> Settings {
        Settings { rule: self.rule, newton_schulz: self.newton_schulz }
    }
}

/// What an optimizer remembers of one parameter.
#[derive(Debug)]
pub(crate) struct State {
    /// Names of the moments ([`UpdateRule::moments`]).
    pub(crate) kinds: &'static [&'static str],
    pub(crate) moments: Vec<Buffer>,
    /// Steps taken: one I64, on the device, so that a skipped step need not be known to the host.
    pub(crate) steps: Buffer,
}

/// What a file says about an optimizer: settings and learning rates of the groups, and moments and steps of the parameters.
pub(crate) struct SavedGroups {
    pub(crate) settings: Vec<Settings>,
    pub(crate) rates: Vec<[f64; 2]>,
    pub(crate) states: IdMap<State>,
}

impl State {
    pub(super) fn new(device: &Device) -> Result<Self> {
        Ok(Self { kinds: &[], moments: Vec::new(), steps: device.backend().fill(0.0, 1, DType::I64)? })
    }

    /// Allocates the state that `rule` needs. If the rule was changed in the middle of training, moments of a kind that it still
    /// needs are kept.
    pub(super) fn fit(&mut self, rule: &UpdateRule, len: usize, device: &Device) -> Result<()> {
        if self.kinds == rule.moments() {
            return Ok(());
        }
        let new = || lasting(|| device.backend().fill(rule.start(), len, DType::F32));
        let kept = |kind| self.kinds.iter().position(|k| *k == kind).map(|i| self.moments[i].clone());
        let moments = rule.moments().iter().map(|kind| kept(*kind).map_or_else(new, Ok)).collect::<Result<_>>()?;
        // SGD counts only to know the first step of its momentum, which takes the whole gradient.
        if matches!(rule, UpdateRule::Sgd { .. }) {
            self.steps = Self::new(device)?.steps;
        }
        (self.kinds, self.moments) = (rule.moments(), moments);
        Ok(())
    }
}

impl ParameterGroups {
    pub(super) fn new(parameters: impl IntoIterator<Item = Parameter>, lr: f64, rule: UpdateRule) -> Self {
        let (all, state) = Default::default();
        let mut groups = Self { id: next_id(), groups: Vec::new(), all, twice: None, state, lazy: false, rates: None };
        groups.push(parameters, lr, Settings { rule, newton_schulz: None });
        groups
    }

    /// Makes an Adam that moves only the rows of a sparse gradient.
    pub(super) fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// Makes a Muon of SGD with momentum.
    pub(super) fn orthogonal(mut self) -> Self {
        self.last().newton_schulz = Some(NewtonSchulz::default());
        self
    }

    pub(super) fn is_muon(&self) -> bool {
        self.groups[0].newton_schulz.is_some()
    }

    /// Starts another group with the present settings of the last one.
    pub(super) fn next(&mut self, parameters: impl IntoIterator<Item = Parameter>) {
        // What is in the device's memory goes, as it has no room for another group.
        self.recall();
        let (lr, settings) = (self.last().initial_lr, self.last().settings());
        self.push(parameters, lr, settings);
    }

    fn push(&mut self, parameters: impl IntoIterator<Item = Parameter>, initial_lr: f64, settings: Settings) {
        let mut unique: Vec<Parameter> = Vec::new();
        for p in parameters {
            if unique.iter().all(|q| q.id() != p.id()) {
                unique.push(p);
            }
        }
        let known: IdSet = self.all.iter().map(Parameter::id).collect();
        self.twice = self.twice.take().or_else(|| unique.iter().find(|p| known.contains(&p.id())).cloned());
        let Settings { rule, newton_schulz } = settings;
        self.groups.push(Group { parameters: unique, initial_lr, rule, newton_schulz });
        self.all = self.groups.iter().flat_map(|g| g.parameters.iter().cloned()).collect();
        self.rates = None;
    }

    /// An error where two groups name the same parameter: it cannot have the settings of both.
    pub(super) fn check_distinct(&self, op: &'static str) -> Result<()> {
        match &self.twice {
            Some(p) => {
                Err(Error::argument(op, "each parameter", "in one group only", format!("{} in two", describe(p))))
            }
            None => Ok(()),
        }
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

    /// Learning rate, weight decay and initial learning rate of each group, as far as the host knows.
    pub(super) fn told(&self) -> Vec<Rate> {
        self.groups.iter().map(|g| [lr(&g.rule), weight_decay(&g.rule), g.initial_lr]).collect()
    }

    /// As [`told`](Self::told), with what a schedule moved on the device; waits if it did.
    fn present(&self) -> Vec<Rate> {
        self.rates.as_ref().and_then(|rates| rates.read().ok()).unwrap_or_else(|| self.told())
    }

    /// Takes over what a schedule moved on the device.
    fn recall(&mut self) {
        let present = self.present();
        for (group, [now, ..]) in self.groups.iter_mut().zip(present) {
            *lr_mut(&mut group.rule) = now;
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
                Err(Error::Backend { op: "Schedule::step", device: device.name().into(), message })
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
            UpdateRule::Sgd { .. } if self.is_muon() => "Muon",
            UpdateRule::Sgd { .. } => "Sgd",
            UpdateRule::Adam { .. } if self.lazy => "SparseAdam",
            UpdateRule::Adam { decoupled: false, .. } => "Adam",
            UpdateRule::Adam { decoupled: true, .. } => "AdamW",
            UpdateRule::RmsProp { .. } => "RmsProp",
            UpdateRule::Adagrad { .. } => "Adagrad",
            UpdateRule::Adadelta { .. } => "Adadelta",
            UpdateRule::RAdam { .. } => "RAdam",
            UpdateRule::NAdam { .. } => "NAdam",
            UpdateRule::Adamax { .. } => "Adamax",
            UpdateRule::Lion { .. } => "Lion",
        }
    }

    /// Learning rate that each group was made with, and the present one.
    pub(crate) fn rates(&self) -> Vec<[f64; 2]> {
        self.present().into_iter().map(|[now, _, initial]| [initial, now]).collect()
    }

    /// Settings of the groups; their learning rates are those of [`rates`](Self::rates).
    pub(crate) fn settings(&self) -> Vec<Settings> {
        self.groups.iter().map(Group::settings).collect()
    }

    /// The number of the parameter's group.
    pub(crate) fn group_of(&self, p: &Parameter) -> Option<usize> {
        self.groups.iter().position(|g| g.parameters.iter().any(|q| q.id() == p.id()))
    }

    /// Continues from a saved state, which was checked before.
    pub(crate) fn restore(&mut self, saved: SavedGroups) {
        for ((group, settings), [initial, now]) in self.groups.iter_mut().zip(saved.settings).zip(saved.rates) {
            (group.rule, group.newton_schulz, group.initial_lr) = (settings.rule, settings.newton_schulz, initial);
            *lr_mut(&mut group.rule) = now;
        }
        self.state = saved.states;
        self.tell();
    }

    /// Sets every group's learning rate to `factor` times the one it was made with.
    pub(super) fn schedule(&mut self, factor: f64) {
        for group in &mut self.groups {
            *lr_mut(&mut group.rule) = group.initial_lr * factor;
        }
        self.tell();
    }

    pub(super) fn learning_rate(&self) -> f64 {
        self.present()[0][0]
    }
}

/// A parameter in words.
pub(crate) fn describe(p: &Parameter) -> String {
    let (name, dims) = (p.name(), p.dims());
    if name.is_empty() { format!("a parameter of shape {dims:?}") } else { format!("`{name}` of shape {dims:?}") }
}

#[cfg(test)]
mod tests {
    use crate::nn::Linear;
    use crate::optim::{Optimizer, Sgd};
    use crate::{Device, F32, GradScaler, Module, Parameter, Result, Tensor};

    /// PyTorch's buffer is the whole gradient at first, whenever that is; a step that was skipped is not the first.
    #[test]
    fn momentum_that_is_switched_on_later_begins_with_a_whole_gradient() -> Result<()> {
        let device = Device::cpu();
        let w = Parameter::new(&Tensor::ones([1], &device)?)?;
        let mut optimizer = Sgd::new([w.clone()], 0.125);
        let mut scaler = GradScaler::builder().init_scale(2.0).build(&device)?;
        let mut seen = Vec::new();
        for (i, slope) in [1.0, 1.0, f32::INFINITY, 1.0, 1.0].into_iter().enumerate() {
            if i == 2 {
                optimizer = optimizer.momentum(0.5).dampening(0.5);
            }
            let grads = scaler.scale(&(w.tensor() * slope)?.sum_all()?)?.backward()?;
            scaler.step(&mut optimizer, grads)?;
            scaler.update()?;
            seen.push(w.to_vec()?[0]);
        }
        assert_eq!(seen, [0.875, 0.75, 0.75, 0.625, 0.5]);
        Ok(())
    }

    #[test]
    fn a_parameter_has_one_group() {
        let device = Device::cpu();
        let net = Linear::new(2, 1, &device).unwrap();
        let before = net.weight().to_vec().unwrap();
        let loss = || net.forward(&Tensor::<F32>::ones([1, 2], &device).unwrap()).unwrap().sum_all().unwrap();
        let mut optimizer = Sgd::new(net.parameters(), 0.1).group([net.weight().clone()]).lr(1.0);
        let error = optimizer.step(&loss().backward().unwrap()).unwrap_err().to_string();
        let rule = "each parameter must be in one group only, found `weight` of shape [1, 2] in two";
        assert_eq!(error, format!("Sgd: {rule}"));
        let mut scaler = GradScaler::builder().build(&device).unwrap();
        let grads = scaler.scale(&loss()).unwrap().backward().unwrap();
        assert_eq!(scaler.step(&mut optimizer, grads).unwrap_err().to_string(), format!("step: {rule}"));
        assert_eq!(net.weight().to_vec().unwrap(), before);
        let twice = net.parameters().into_iter().chain(net.parameters());
        Sgd::new(twice, 0.1).step(&loss().backward().unwrap()).unwrap();
    }
}
