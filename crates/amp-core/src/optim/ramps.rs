//! Schedules that begin elsewhere and reach the full learning rate, or another, in a straight line or at once.

use super::schedule::{Schedule, schedule};
use super::{Optimizer, Taken};

schedule! {
    LinearLr, |s, steps| {
        let share = if s.over == 0 { 1.0 } else { steps.min(s.over) as f64 / s.over as f64 };
        s.start * (1.0 - share) + s.end * share
    };
    ConstantLr, |s, steps| if steps < s.over { s.factor } else { 1.0 };
}

/// A straight line between two fractions of the learning rate (`LinearLR`).
///
/// [`LinearWarmup`](super::LinearWarmup) is one that begins with a step of the right length. A warm-up from nothing and a line
/// back to it, as many transformers are trained:
///
/// ```
/// # use amp_core::optim::{LinearLr, PolynomialLr, Schedule, Sgd};
/// # let mut optimizer = Sgd::new([], 1.0);
/// let rise = LinearLr::new(&mut optimizer, 0.0, 1.0, 100);
/// let schedule = rise.then(100, PolynomialLr::new(900, 1.0), &mut optimizer);
/// # assert_eq!([0, 50, 100, 550, 1000].map(|steps| schedule.factor(steps)), [0.0, 0.5, 1.0, 0.5, 0.0]);
/// ```
#[doc(alias("LinearLR", "get_linear_schedule_with_warmup"))]
#[derive(Clone, Debug)]
pub struct LinearLr {
    start: f64,
    end: f64,
    over: u64,
    steps: Taken,
}

impl LinearLr {
    /// Goes from `start` times the learning rate to `end` times in `over` steps (1/3, 1 and 5 in PyTorch by default) and stays
    /// there; sets the first one at once.
    pub fn new(optimizer: &mut dyn Optimizer, start: f64, end: f64, over: u64) -> Self {
        let schedule = Self { start, end, over, steps: Taken::default() };
        optimizer.schedule(schedule.factor(0));
        schedule
    }
}

/// A fraction of the learning rate for some steps, then all of it (`ConstantLR`).
#[doc(alias = "ConstantLR")]
#[derive(Clone, Debug)]
pub struct ConstantLr {
    factor: f64,
    over: u64,
    steps: Taken,
}

impl ConstantLr {
    /// `factor` times the learning rate during the first `over` steps (1/3 and 5 in PyTorch by default); sets the first one at
    /// once.
    pub fn new(optimizer: &mut dyn Optimizer, factor: f64, over: u64) -> Self {
        let schedule = Self { factor, over, steps: Taken::default() };
        optimizer.schedule(schedule.factor(0));
        schedule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::schedule::tests::{close, optimizer, rates};

    #[test]
    fn rates_are_those_of_pytorch() {
        let mut opt = optimizer(0.5);
        close(&rates(&mut LinearLr::new(&mut opt, 0.2, 1.0, 4), &mut opt, 5), &[0.1, 0.2, 0.3, 0.4, 0.5, 0.5]);
        let mut opt = optimizer(0.5);
        close(&rates(&mut LinearLr::new(&mut opt, 1.0, 0.0, 2), &mut opt, 3), &[0.5, 0.25, 0.0, 0.0]);
        let mut opt = optimizer(0.5);
        close(&rates(&mut ConstantLr::new(&mut opt, 0.2, 2), &mut opt, 3), &[0.1, 0.1, 0.5, 0.5]);
    }

    #[test]
    fn no_steps_lead_to_the_end_at_once() {
        let mut opt = optimizer(0.5);
        close(&rates(&mut LinearLr::new(&mut opt, 0.2, 1.0, 0), &mut opt, 1), &[0.5, 0.5]);
        close(&rates(&mut ConstantLr::new(&mut opt, 0.2, 0), &mut opt, 1), &[0.5, 0.5]);
    }
}
