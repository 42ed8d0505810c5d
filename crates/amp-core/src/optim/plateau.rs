//! A learning rate that falls when a measure stops improving.

use super::Optimizer;
use crate::{Error, Result};

/// Multiplies the learning rate by a factor when a measure has not improved for a while (`ReduceLROnPlateau`).
///
/// It moves by the measure of each validation and not by steps, so it is no [`Schedule`](super::Schedule). It sets the
/// optimizer's learning rates, as a schedule does: of both, the one that moved last counts.
///
/// ```
/// # use amp_core::{nn::Linear, optim::{Optimizer, ReduceOnPlateau, Sgd}, Device, Module};
/// let mut opt = Sgd::new(Linear::new(4, 2, &Device::cpu())?.parameters(), 0.1);
/// let mut plateau = ReduceOnPlateau::new(0.5, 1);
/// for loss in [0.9, 0.8, 0.8, 0.8] {
///     plateau.step(&mut opt, loss)?;
/// }
/// assert_eq!(opt.learning_rate(), 0.05);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[doc(alias = "ReduceLROnPlateau")]
#[derive(Clone, Debug)]
pub struct ReduceOnPlateau {
    gamma: f64,
    patience: u64,
    cooldown: u64,
    threshold: f64,
    least: f64,
    eps: f64,
    rising: bool,
    state: PlateauState,
}

/// What changes from call to call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlateauState {
    /// The fraction of the full learning rate that is in use.
    factor: f64,
    /// `None` until the first measure that is not infinitely bad.
    best: Option<f64>,
    /// Calls without improvement.
    bad: u64,
    /// Calls of the cooldown that are left.
    resting: u64,
}

impl ReduceOnPlateau {
    /// Multiplies by `gamma` when more than `patience` calls in a row bring nothing better (0.1 and 10 in PyTorch); a smaller
    /// measure is better.
    pub fn new(gamma: f64, patience: u64) -> Self {
        let state = PlateauState { factor: 1.0, best: None, bad: 0, resting: 0 };
        Self { gamma, patience, cooldown: 0, threshold: 1e-4, least: 0.0, eps: 1e-8, rising: false, state }
    }

    /// Greater measures are better, as with an accuracy (`mode="max"`).
    pub fn rising(mut self) -> Self {
        self.rising = true;
        self
    }

    /// Relative improvement over the best measure that counts as one (1e-4 by default).
    pub fn threshold(mut self, share: f64) -> Self {
        self.threshold = share;
        self
    }

    /// Number of calls after each reduction that do not count (0 by default).
    pub fn cooldown(mut self, calls: u64) -> Self {
        self.cooldown = calls;
        self
    }

    /// The least fraction of the full learning rate (0 by default).
    pub fn least(mut self, factor: f64) -> Self {
        self.least = factor;
        self
    }

    /// Leaves the learning rates as they are where none would fall by more than this (1e-8 by default).
    pub fn eps(mut self, fall: f64) -> Self {
        self.eps = fall;
        self
    }

    /// Takes the latest `measure`, such as a validation loss; one that is not a number is no improvement.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `gamma` is at least 0 and below 1, [`Error::Backend`] while a graph is captured. Nothing
    /// has changed then.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer, measure: impl Into<f64>) -> Result<()> {
        if !(0.0..1.0).contains(&self.gamma) {
            return Err(Error::argument("ReduceOnPlateau", "gamma", "at least 0 and below 1", self.gamma));
        }
        if let Some(groups) = optimizer.groups() {
            groups.refuse_recording()?;
        }
        if self.reduces(measure.into()) {
            let factor = (self.state.factor * self.gamma).max(self.least.min(self.state.factor));
            if fall(optimizer, factor / self.state.factor) > self.eps {
                self.state.factor = factor;
                optimizer.schedule(factor);
            }
        }
        Ok(())
    }

    fn reduces(&mut self, measure: f64) -> bool {
        let PlateauState { best, bad, resting, .. } = &mut self.state;
        let better = match *best {
            // The first measure is an improvement, unless it is the worst there is.
            None if self.rising => measure > f64::NEG_INFINITY,
            None => measure < f64::INFINITY,
            Some(best) if self.rising => measure > best * (1.0 + self.threshold),
            Some(best) => measure < best * (1.0 - self.threshold),
        };
        (*best, *bad) = if better { (Some(measure), 0) } else { (*best, bad.saturating_add(1)) };
        if *resting > 0 {
            (*resting, *bad) = (*resting - 1, 0);
        }
        let reduces = *bad > self.patience;
        if reduces {
            (*resting, *bad) = (self.cooldown, 0);
        }
        reduces
    }

    /// The state as a line of a training state.
    pub(crate) fn to_text(&self) -> String {
        let PlateauState { factor, best, bad, resting } = self.state;
        format!("{factor} {} {bad} {resting}", best.map_or("none".into(), |best| best.to_string()))
    }

    pub(crate) fn set_state(&mut self, state: PlateauState) {
        self.state = state;
    }
}

/// By how much the greatest learning rate falls that is multiplied by `share`; NaN if it is 0 of 0.
fn fall(optimizer: &mut dyn Optimizer, share: f64) -> f64 {
    let rates = optimizer.groups().map(|groups| groups.rates());
    let first = optimizer.learning_rate();
    let greatest = rates.map_or(first, |rates| rates.iter().fold(first, |most, [_, now]| most.max(*now)));
    greatest * (1.0 - share)
}

impl PlateauState {
    /// What [`ReduceOnPlateau::to_text`] wrote.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let [factor, best, bad, resting] = *text.split(' ').collect::<Vec<_>>() else { return None };
        let factor = factor.parse().ok().filter(|f| (0.0..=1.0).contains(f))?;
        let best = if best == "none" { None } else { Some(best.parse().ok().filter(|b: &f64| !b.is_nan())?) };
        Some(Self { factor, best, bad: bad.parse().ok()?, resting: resting.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::{PlateauState, ReduceOnPlateau};
    use crate::optim::{Optimizer, Sgd};
    use crate::{Device, Parameter, Tensor};

    fn rates(mut plateau: ReduceOnPlateau, measures: &[f64]) -> Vec<f64> {
        let parameter = Parameter::new(&Tensor::ones([1], &Device::cpu()).unwrap()).unwrap();
        let mut optimizer = Sgd::new([parameter], 1.0);
        let mut rates = Vec::new();
        for &measure in measures {
            plateau.step(&mut optimizer, measure).unwrap();
            rates.push(optimizer.learning_rate());
        }
        rates
    }

    #[test]
    fn what_is_no_number_is_no_improvement() {
        let nan = f64::NAN;
        assert_eq!(rates(ReduceOnPlateau::new(0.5, 0), &[nan, 3.0, nan, 2.0]), [0.5, 0.5, 0.25, 0.25]);
        assert_eq!(rates(ReduceOnPlateau::new(0.5, 0).least(0.3), &[1.0; 4]), [1.0, 0.5, 0.3, 0.3]);
        let infinite = f64::INFINITY;
        assert_eq!(rates(ReduceOnPlateau::new(0.5, 0), &[infinite, infinite, 5.0, 5.0]), [0.5, 0.25, 0.25, 0.125]);
        assert_eq!(rates(ReduceOnPlateau::new(0.5, 0).rising(), &[-infinite, 1.0, 1.0, 1.0]), [0.5, 0.5, 0.25, 0.125]);
    }

    #[test]
    fn rates_that_would_hardly_fall_stay() {
        let fallen = |mut plateau: ReduceOnPlateau, lr: f64, other: f64| {
            let [p, q] = [(); 2].map(|()| Parameter::new(&Tensor::ones([1], &Device::cpu()).unwrap()).unwrap());
            let mut optimizer = Sgd::new([p], lr).group([q]).lr(other);
            [1.0, 1.0, 1.0].map(|measure| {
                plateau.step(&mut optimizer, measure).unwrap();
                optimizer.learning_rate()
            })
        };
        assert_eq!(fallen(ReduceOnPlateau::new(0.5, 0), 1.5e-8, 0.0), [1.5e-8; 3]);
        assert_eq!(fallen(ReduceOnPlateau::new(0.5, 0), 3e-8, 0.0), [3e-8, 1.5e-8, 1.5e-8]);
        assert_eq!(fallen(ReduceOnPlateau::new(0.5, 0), 1e-8, 1.0), [1e-8, 0.5e-8, 0.25e-8]);
        assert_eq!(fallen(ReduceOnPlateau::new(0.5, 0).eps(0.0), 1e-8, 0.0), [1e-8, 0.5e-8, 0.25e-8]);
        assert_eq!(fallen(ReduceOnPlateau::new(0.0, 0), 1.0, 0.0), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn a_factor_that_does_not_reduce_is_an_error() {
        let mut optimizer = Sgd::new([], 1.0);
        for gamma in [1.0, -0.5, f64::NAN] {
            let error = ReduceOnPlateau::new(gamma, 3).step(&mut optimizer, 1.0).unwrap_err().to_string();
            assert!(error.contains("gamma") && error.contains("below 1"), "{error}");
        }
    }

    #[test]
    fn states_are_written_exactly() {
        let mut plateau = ReduceOnPlateau::new(0.1, 2);
        for best in [None, Some(0.1 + 0.2), Some(f64::INFINITY), Some(-1e-310)] {
            plateau.set_state(PlateauState { factor: 0.1 * 0.1, best, bad: 2, resting: 7 });
            assert_eq!(PlateauState::from_text(&plateau.to_text()), Some(plateau.state));
        }
        for text in
            ["", "1 none 0", "1 none 0 0 0", "1 NaN 0 0", "2 none 0 0", "NaN none 0 0", "1 none -1 0", "1 x 0 0"]
        {
            assert_eq!(PlateauState::from_text(text), None, "{text}");
        }
    }
}
