//! Periodic schedules.

use super::schedule::{Schedule, schedule};
use super::{Optimizer, Taken};
use crate::{Error, Result};
use std::f64::consts::PI;

schedule! {
    CosineRestarts, |s, steps| {
        let (done, period) = s.within(steps);
        s.least + (1.0 - s.least) * 0.5 * (1.0 + (PI * done as f64 / period as f64).cos())
    };
    CyclicLr, |s, steps| {
        let at = steps % s.up.saturating_add(s.down);
        let height = if at <= s.up { at as f64 / s.up as f64 } else { 1.0 - (at - s.up) as f64 / s.down as f64 };
        s.least + (1.0 - s.least) * height
    };
}

/// Half cosines from the full learning rate downwards, one after the other (`CosineAnnealingWarmRestarts`).
#[doc(alias = "CosineAnnealingWarmRestarts")]
#[derive(Clone, Debug)]
pub struct CosineRestarts {
    period: u64,
    growth: u64,
    least: f64,
    steps: Taken,
}

impl CosineRestarts {
    /// Falls towards 0 and starts again every `period` steps (`T_0`; 0 counts as 1).
    pub fn new(period: u64) -> Self {
        Self { period: period.max(1), growth: 1, least: 0.0, steps: Taken::default() }
    }

    /// Makes each period this many times as long as the one before (`T_mult`, 1 by default; 0 counts as 1).
    pub fn growth(mut self, times: u64) -> Self {
        self.growth = times.max(1);
        self
    }

    /// Falls towards this fraction of the full learning rate instead.
    pub fn least(mut self, factor: f64) -> Self {
        self.least = factor;
        self
    }

    /// The steps of the period that is under way, and its length.
    fn within(&self, steps: u64) -> (u64, u64) {
        if self.growth == 1 {
            return (steps % self.period, self.period);
        }
        let (mut left, mut period) = (steps, self.period);
        while left >= period {
            left -= period;
            period = period.saturating_mul(self.growth);
        }
        (left, period)
    }
}

/// Rises along a straight line to the full learning rate and falls again, over and over (`CyclicLR`, `triangular`).
///
/// The optimizer's learning rate is the peak (`max_lr`). Its momentum stays as it is (`cycle_momentum=False`).
#[derive(Clone, Debug)]
pub struct CyclicLr {
    least: f64,
    up: u64,
    down: u64,
    steps: Taken,
}

impl CyclicLr {
    /// Rises from the fraction `least` of the peak in `up` steps and falls back in `down`; sets the first one at once.
    ///
    /// # Errors
    /// [`Error::Argument`] when `up` or `down` is 0.
    pub fn new(optimizer: &mut dyn Optimizer, least: f64, up: u64, down: u64) -> Result<Self> {
        for (name, steps) in [("up", up), ("down", down)] {
            if steps == 0 {
                return Err(Error::argument("CyclicLr", name, "at least 1", steps));
            }
        }
        let schedule = Self { least, up, down, steps: Taken::default() };
        optimizer.schedule(schedule.factor(0));
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::Sgd;
    use crate::optim::schedule::tests::{close, optimizer, rates};

    /// Values of PyTorch 2.15.
    #[test]
    fn rates_come_round_as_those_of_pytorch() {
        let restarts = |s: &mut CosineRestarts, steps| rates(s, &mut optimizer(1.0), steps);
        close(&restarts(&mut CosineRestarts::new(2).least(0.2), 4), &[1.0, 0.6, 1.0, 0.6, 1.0]);
        let found = restarts(&mut CosineRestarts::new(2).growth(2), 9);
        close(
            &found,
            &[
                1.0,
                0.5,
                1.0,
                0.8535533905933,
                0.5,
                0.1464466094067,
                1.0,
                0.9619397662556,
                0.8535533905933,
                0.6913417161825,
            ],
        );
        let mut opt: Sgd = optimizer(0.5);
        let mut cycle = CyclicLr::new(&mut opt, 0.2, 2, 4).unwrap();
        close(&rates(&mut cycle, &mut opt, 9), &[0.1, 0.3, 0.5, 0.4, 0.3, 0.2, 0.1, 0.3, 0.5, 0.4]);
        assert!(CyclicLr::new(&mut opt, 0.2, 0, 4).is_err());
    }

    #[test]
    fn long_runs_end_their_periods() {
        let schedule = CosineRestarts::new(1).growth(2);
        assert_eq!(schedule.within(u64::MAX), (0, u64::MAX));
        assert_eq!(CosineRestarts::new(0).within(7), (0, 1));
    }
}
