//! Learning-rate schedules: factors on the learning rates that an optimizer was made with.

use super::taken::follow;
use super::{Optimizer, Step, Taken};
use crate::{Error, Result};
use std::f64::consts::PI;
use std::fmt;

/// A learning rate that changes with the number of steps taken.
///
/// A schedule starts with its construction: those whose first factor is not 1 take the optimizer there.
pub trait Schedule {
    /// What the optimizer's learning rates are multiplied by after `steps` steps were taken.
    fn factor(&self, steps: u64) -> f64;

    /// How many steps were taken; synchronises with a GPU that has steps to do still.
    fn steps(&self) -> u64;

    /// Continues after `steps` steps, as when a checkpoint is loaded; the learning rate comes with the optimizer's state.
    fn set_steps(&mut self, steps: u64);

    /// The counter of the library's own schedules, which a device can move.
    #[doc(hidden)]
    fn taken(&mut self) -> Option<&mut Taken> {
        None
    }

    /// Name of the kind of schedule in a saved training state; schedules of your own that do not override it share one.
    fn kind(&self) -> String {
        "a schedule of one's own".into()
    }

    /// Moves on if the step was taken, and leaves everything as it is if not.
    ///
    /// With the library's schedules and optimizers a GPU does so itself, and the host does not wait; schedules and optimizers
    /// of your own synchronise with the device.
    ///
    /// # Errors
    /// [`Error::Backend`] while a graph is captured: a schedule moves after each replay, with the step that it returns.
    fn step(&mut self, optimizer: &mut dyn Optimizer, step: &Step) -> Result<()> {
        if let Some(groups) = optimizer.groups() {
            groups.refuse_recording()?;
            if follow(self, groups, step)? {
                return Ok(());
            }
        }
        if step.was_taken()? {
            self.set_steps(self.steps().saturating_add(1));
            optimizer.schedule(self.factor(self.steps()));
        }
        Ok(())
    }

    /// Goes over to `next` after `steps` steps, as from a warm-up to a decay (`SequentialLR`).
    ///
    /// The optimizer is taken to where the first schedule starts: making `next` may have taken it elsewhere.
    ///
    /// ```
    /// # use amp_core::optim::{LambdaLr, LinearWarmup, Optimizer, Schedule, Sgd};
    /// # let mut optimizer = Sgd::new([], 1.0);
    /// let decay = LambdaLr::new(&mut optimizer, |steps| 0.9_f64.powi(steps as i32));
    /// let schedule = LinearWarmup::new(&mut optimizer, 10).then(10, decay, &mut optimizer);
    /// # assert_eq!([0, 9, 10, 11].map(|steps| schedule.factor(steps)), [0.1, 1.0, 1.0, 0.9]);
    /// ```
    fn then<T: Schedule>(self, steps: u64, next: T, optimizer: &mut dyn Optimizer) -> Chain<Self, T>
    where
        Self: Sized,
    {
        let chain = Chain { first: self, at: steps, next, steps: Taken::default() };
        optimizer.schedule(chain.factor(0));
        chain
    }
}

macro_rules! schedule {
    ($($name:ident $(<$f:ident>)?, |$s:ident, $steps:ident| $factor:expr;)*) => { $(
        impl $(<$f: Fn(u64) -> f64>)? Schedule for $name $(<$f>)? {
            fn factor(&self, $steps: u64) -> f64 {
                let $s = self;
                $factor
            }

            fn steps(&self) -> u64 {
                self.steps.get()
            }

            fn set_steps(&mut self, steps: u64) {
                self.steps.set(steps);
            }

            fn taken(&mut self) -> Option<&mut Taken> {
                Some(&mut self.steps)
            }

            fn kind(&self) -> String {
                stringify!($name).into()
            }
        }
    )* };
}
pub(super) use schedule;

schedule! {
    StepLr, |s, steps| s.gamma.powf((steps / s.every.max(1)) as f64);
    MultiStepLr, |s, steps| s.gamma.powi(s.milestones.iter().filter(|&&at| at <= steps).count() as i32);
    PolynomialLr, |s, steps| (1.0 - done(steps, s.total)).powf(s.power);
    CosineLr, |s, steps| s.least + (1.0 - s.least) * 0.5 * (1.0 + (PI * done(steps, s.total)).cos());
    LinearWarmup, |s, steps| (steps.saturating_add(1) as f64 / s.over.max(1) as f64).min(1.0);
    OneCycle, |s, steps| s.at(steps);
    LambdaLr<F>, |s, steps| (s.factor)(steps);
}

/// Which share of `total` steps is done; all of none.
fn done(steps: u64, total: u64) -> f64 {
    if steps < total { steps as f64 / total as f64 } else { 1.0 }
}

/// Multiplies the learning rate by `gamma` every so many steps (`torch.optim.lr_scheduler.StepLR`); after every one, this
/// is `ExponentialLR`.
#[doc(alias = "ExponentialLR")]
#[derive(Clone, Debug)]
pub struct StepLr {
    every: u64,
    gamma: f64,
    steps: Taken,
}

impl StepLr {
    /// Multiplies by `gamma` after every `every` steps (0 counts as 1).
    pub fn new(every: u64, gamma: f64) -> Self {
        Self { every, gamma, steps: Taken::default() }
    }
}

/// Multiplies the learning rate by `gamma` after certain numbers of steps (`MultiStepLR`).
#[derive(Clone, Debug)]
pub struct MultiStepLr {
    milestones: Vec<u64>,
    gamma: f64,
    steps: Taken,
}

impl MultiStepLr {
    /// Multiplies by `gamma` when each of the `milestones`, from 1 on, is reached.
    pub fn new(milestones: impl IntoIterator<Item = u64>, gamma: f64) -> Self {
        Self { milestones: milestones.into_iter().collect(), gamma, steps: Taken::default() }
    }
}

/// Falls from the full learning rate to 0 as a power of the steps that are left (`PolynomialLR`); with 1, a straight line.
#[derive(Clone, Debug)]
pub struct PolynomialLr {
    total: u64,
    power: f64,
    steps: Taken,
}

impl PolynomialLr {
    /// Falls to 0 in `total` steps and stays there.
    pub fn new(total: u64, power: f64) -> Self {
        Self { total, power, steps: Taken::default() }
    }
}

/// A learning rate given by a function of the number of steps taken (`LambdaLR`).
pub struct LambdaLr<F> {
    factor: F,
    steps: Taken,
}

impl<F: Fn(u64) -> f64> LambdaLr<F> {
    /// Multiplies the full learning rate by `factor(steps)`; sets the first one at once.
    pub fn new(optimizer: &mut dyn Optimizer, factor: F) -> Self {
        optimizer.schedule(factor(0));
        Self { factor, steps: Taken::default() }
    }
}

impl<F> fmt::Debug for LambdaLr<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LambdaLr at step {}", self.steps.get())
    }
}

/// Half a cosine from the full learning rate to a fraction of it (`CosineAnnealingLR`).
#[doc(alias = "CosineAnnealingLR")]
#[derive(Clone, Debug)]
pub struct CosineLr {
    total: u64,
    least: f64,
    steps: Taken,
}

impl CosineLr {
    /// Falls to 0 in `total` steps and stays there.
    pub fn new(total: u64) -> Self {
        Self { total, least: 0.0, steps: Taken::default() }
    }

    /// Falls to this fraction of the full learning rate instead.
    pub fn least(mut self, factor: f64) -> Self {
        self.least = factor;
        self
    }
}

/// Rises linearly to the full learning rate: step number `n`, counted from 1, runs at `n / over` of it (`LinearLR` from `1 / over`
/// on; [`LinearLr`](super::LinearLr) takes any two ends).
#[derive(Clone, Debug)]
pub struct LinearWarmup {
    over: u64,
    steps: Taken,
}

impl LinearWarmup {
    /// Reaches the full learning rate in step number `over`; sets the first one at once.
    pub fn new(optimizer: &mut dyn Optimizer, over: u64) -> Self {
        let schedule = Self { over, steps: Taken::default() };
        optimizer.schedule(schedule.factor(0));
        schedule
    }
}

/// Rises by a cosine to the full learning rate and falls far below the start (`OneCycleLR`).
///
/// The optimizer's learning rate is the peak. Its momentum stays as it is (`cycle_momentum=False`).
#[doc(alias = "OneCycleLR")]
#[derive(Clone, Debug)]
pub struct OneCycle {
    total: u64,
    rising: f64,
    start: f64,
    end: f64,
    steps: Taken,
}

impl OneCycle {
    /// Rises from 1/25 of the peak during the first 30 % of `total` steps, then falls to 1/250000; sets the first
    /// learning rate at once.
    ///
    /// # Errors
    /// [`Error::Argument`] when `total` is 0.
    pub fn new(optimizer: &mut dyn Optimizer, total: u64) -> Result<Self> {
        if total == 0 {
            return Err(Error::argument("OneCycle", "total", "at least 1", total));
        }
        let schedule = Self { total, rising: 0.3, start: 1.0 / 25.0, end: 1.0 / 25.0e4, steps: Taken::default() };
        optimizer.schedule(schedule.factor(0));
        Ok(schedule)
    }

    /// The share of the steps in which the learning rate rises (0.3 by default).
    ///
    /// # Errors
    /// [`Error::Argument`] unless it lies between 0 and 1.
    pub fn rising(mut self, optimizer: &mut dyn Optimizer, share: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&share) {
            return Err(Error::argument("OneCycle", "rising", "between 0 and 1", share));
        }
        self.rising = share;
        optimizer.schedule(self.factor(self.steps.get()));
        Ok(self)
    }

    fn at(&self, steps: u64) -> f64 {
        let cosine = |from: f64, to: f64, done: f64| to + (from - to) * 0.5 * (1.0 + (PI * done.clamp(0.0, 1.0)).cos());
        let last = (self.total - 1) as f64;
        let (now, peak) = ((steps as f64).min(last), self.rising * self.total as f64 - 1.0);
        if now <= peak {
            cosine(self.start, 1.0, if peak > 0.0 { now / peak } else { 1.0 })
        } else {
            cosine(1.0, self.end, if last > peak { (now - peak) / (last - peak) } else { 1.0 })
        }
    }
}

/// Two schedules, one after the other; see [`Schedule::then`].
#[derive(Clone, Debug)]
pub struct Chain<A, B> {
    first: A,
    at: u64,
    next: B,
    steps: Taken,
}

impl<A: Schedule, B: Schedule> Schedule for Chain<A, B> {
    fn factor(&self, steps: u64) -> f64 {
        if steps < self.at { self.first.factor(steps) } else { self.next.factor(steps - self.at) }
    }

    fn steps(&self) -> u64 {
        self.steps.get()
    }

    fn set_steps(&mut self, steps: u64) {
        self.steps.set(steps);
    }

    fn taken(&mut self) -> Option<&mut Taken> {
        Some(&mut self.steps)
    }

    fn kind(&self) -> String {
        format!("{}, then {}", self.first.kind(), self.next.kind())
    }
}

impl fmt::Debug for dyn Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule at step {}", self.steps())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::optim::Sgd;
    use crate::{Device, Parameter, Tensor};

    pub(crate) fn optimizer(lr: f64) -> Sgd {
        Sgd::new([Parameter::new(&Tensor::ones([1], &Device::cpu()).unwrap()).unwrap()], lr)
    }

    pub(crate) fn rates(schedule: &mut impl Schedule, optimizer: &mut Sgd, steps: usize) -> Vec<f64> {
        let mut rates = vec![optimizer.learning_rate()];
        for _ in 0..steps {
            schedule.step(optimizer, &Step::taken()).unwrap();
            rates.push(optimizer.learning_rate());
        }
        rates
    }

    pub(crate) fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() <= 1e-12, "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn rates_are_those_of_pytorch() {
        let mut opt = optimizer(0.8);
        close(&rates(&mut StepLr::new(2, 0.5), &mut opt, 4), &[0.8, 0.8, 0.4, 0.4, 0.2]);
        let mut opt = optimizer(0.8);
        close(&rates(&mut MultiStepLr::new([3, 1], 0.5), &mut opt, 4), &[0.8, 0.4, 0.4, 0.2, 0.2]);
        let mut opt = optimizer(1.0);
        close(&rates(&mut PolynomialLr::new(4, 2.0), &mut opt, 5), &[1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]);
        let mut opt = optimizer(2.0);
        let mut lambda = LambdaLr::new(&mut opt, |steps| 1.0 / (1.0 + steps as f64));
        close(&rates(&mut lambda, &mut opt, 3), &[2.0, 1.0, 2.0 / 3.0, 0.5]);
        let mut opt = optimizer(1.0);
        close(&rates(&mut CosineLr::new(2).least(0.2), &mut opt, 3), &[1.0, 0.6, 0.2, 0.2]);
        // What falls within no step has fallen.
        close(&rates(&mut CosineLr::new(0).least(0.2), &mut optimizer(1.0), 1)[1..], &[0.2]);
        close(&rates(&mut PolynomialLr::new(0, 1.0), &mut optimizer(1.0), 1)[1..], &[0.0]);
        let mut opt = optimizer(1.0);
        let mut warm = LinearWarmup::new(&mut opt, 4);
        close(&rates(&mut warm, &mut opt, 4), &[0.25, 0.5, 0.75, 1.0, 1.0]);
        // OneCycleLR(max_lr=1, total_steps=10): peak after step 2, both ends as computed by PyTorch 2.15.
        let mut opt = optimizer(1.0);
        let mut cycle = OneCycle::new(&mut opt, 10).unwrap();
        let found = rates(&mut cycle, &mut opt, 9);
        close(&found[..3], &[0.04, 0.52, 1.0]);
        close(&found[9..], &[4e-6]);
    }

    #[test]
    fn a_chain_continues_where_the_first_ends() {
        let mut opt = optimizer(1.0);
        let mut both = LinearWarmup::new(&mut opt, 2).then(2, StepLr::new(1, 0.1), &mut opt);
        close(&rates(&mut both, &mut opt, 3), &[0.5, 1.0, 1.0, 0.1]);
    }

    #[test]
    fn a_chain_starts_where_the_first_does() {
        let mut opt = optimizer(1.0);
        let warm = LinearWarmup::new(&mut opt, 4);
        let mut both = warm.then(2, OneCycle::new(&mut opt, 10).unwrap(), &mut opt);
        close(&rates(&mut both, &mut opt, 3), &[0.25, 0.5, 0.04, 0.52]);
        let mut opt = optimizer(1.0);
        let mut both = CosineLr::new(2).then(1, LinearWarmup::new(&mut opt, 4), &mut opt);
        close(&rates(&mut both, &mut opt, 2), &[1.0, 0.25, 0.5]);
    }
}
