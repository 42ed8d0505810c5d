//! Settings of a scaler, checked before it exists.

use super::GradScaler;
use crate::{Device, Error, Result};
use amp_cpu::optim::ScaleRule;

/// Settings of a [`GradScaler`]; the defaults are PyTorch's.
#[derive(Clone, Debug)]
pub struct GradScalerBuilder {
    init_scale: f32,
    growth_factor: f32,
    backoff_factor: f32,
    growth_interval: u64,
    enabled: bool,
    dynamic: bool,
    floor: f32,
    ceiling: f32,
    hysteresis: u64,
    patience: u64,
}

impl Default for GradScalerBuilder {
    fn default() -> Self {
        Self {
            init_scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            enabled: true,
            dynamic: true,
            floor: 1.0,
            ceiling: 2f32.powi(127),
            hysteresis: 1,
            patience: 5,
        }
    }
}

impl GradScalerBuilder {
    /// The scale to start with, a power of two (65536 by default).
    pub fn init_scale(mut self, scale: f32) -> Self {
        self.init_scale = scale;
        self
    }

    /// What the scale is multiplied by after `growth_interval` clean steps, a power of two above 1 (2 by default).
    pub fn growth_factor(mut self, factor: f32) -> Self {
        self.growth_factor = factor;
        self
    }

    /// What the scale is multiplied by when a gradient is not finite, a power of two below 1 (0.5 by default).
    pub fn backoff_factor(mut self, factor: f32) -> Self {
        self.backoff_factor = factor;
        self
    }

    /// Clean steps between two growths (2000 by default); 0 means that the scale never grows.
    pub fn growth_interval(mut self, steps: u64) -> Self {
        self.growth_interval = steps;
        self
    }

    /// With `false` losses and gradients are neither scaled nor checked, `step` always updates the parameters, and `update` does
    /// nothing.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// A scale that never moves; steps with non-finite gradients are still skipped, and too many of them in a row are an
    /// error ([`give_up_after`](Self::give_up_after)).
    pub fn static_scale(mut self, scale: f32) -> Self {
        (self.init_scale, self.dynamic) = (scale, false);
        self
    }

    /// The least scale, a power of two (1 by default).
    pub fn floor(mut self, scale: f32) -> Self {
        self.floor = scale;
        self
    }

    /// The greatest scale, a power of two (2^127 by default).
    pub fn ceiling(mut self, scale: f32) -> Self {
        self.ceiling = scale;
        self
    }

    /// Steps with non-finite gradients, without a clean one in between, before the scale backs off (1 by default).
    pub fn hysteresis(mut self, steps: u64) -> Self {
        self.hysteresis = steps;
        self
    }

    /// How many times in a row the scale may need lowering below its floor before [`GradScaler::update`] reports an error (5
    /// by default). A static scale is always at its floor.
    pub fn give_up_after(mut self, steps: u64) -> Self {
        self.patience = steps;
        self
    }

    /// The scaler, with its state on `device`.
    ///
    /// # Errors
    /// [`Error::Argument`] when a setting makes no sense; a disabled scaler is not checked.
    pub fn build(self, device: &Device) -> Result<GradScaler> {
        if !self.enabled {
            let unused = ScaleRule { growth: 1, backoff: -1, interval: 2000, floor: 0, ceiling: 127, hysteresis: 1 };
            return GradScaler::start(false, unused, 0, u64::MAX, device);
        }
        let exponent = power_of_two("init_scale", self.init_scale)?;
        let (floor, ceiling) = (power_of_two("floor", self.floor)?, power_of_two("ceiling", self.ceiling)?);
        if self.dynamic && !(floor..=ceiling).contains(&exponent) {
            let expected = format!("between the floor {} and the ceiling {}", self.floor, self.ceiling);
            return Err(Error::argument(OP, "init_scale", expected, self.init_scale));
        }
        for (name, value) in [("hysteresis", self.hysteresis), ("give_up_after", self.patience)] {
            if value == 0 {
                return Err(Error::argument(OP, name, "at least 1", value));
            }
        }
        let rule = match self.dynamic {
            true => ScaleRule {
                growth: growth(self.growth_factor)?,
                backoff: backoff(self.backoff_factor)?,
                interval: self.growth_interval,
                floor,
                ceiling,
                hysteresis: self.hysteresis,
            },
            false => {
                ScaleRule { growth: 0, backoff: 0, interval: 0, floor: exponent, ceiling: exponent, hysteresis: 1 }
            }
        };
        GradScaler::start(true, rule, exponent, self.patience, device)
    }
}

const OP: &str = "GradScaler";

/// Exponent of a growth factor.
pub(super) fn growth(factor: f32) -> Result<i32> {
    match power_of_two("growth_factor", factor)? {
        exponent if exponent > 0 => Ok(exponent),
        _ => Err(Error::argument(OP, "growth_factor", "above 1", factor)),
    }
}

/// Exponent of a backoff factor.
pub(super) fn backoff(factor: f32) -> Result<i32> {
    match power_of_two("backoff_factor", factor)? {
        exponent if exponent < 0 => Ok(exponent),
        _ => Err(Error::argument(OP, "backoff_factor", "below 1", factor)),
    }
}

/// Exponent of a power of two.
fn power_of_two(argument: &'static str, value: f32) -> Result<i32> {
    let expected = || Error::argument(OP, argument, "a power of two, so that scaling is exact", value);
    if value.is_subnormal() {
        return Err(Error::argument(OP, argument, "at least 2^-126", format!("{value:e}")));
    }
    let exponent = exponent_below(OP, value).map_err(|_| expected())?;
    if (exponent as f32).exp2() == value { Ok(exponent) } else { Err(expected()) }
}

/// Exponent of the greatest power of two that is not above `value`.
pub(super) fn exponent_below(op: &'static str, value: f32) -> Result<i32> {
    if !(value.is_normal() && value > 0.0) {
        return Err(Error::argument(op, "the scale", "a positive number between 2^-126 and 2^127", value));
    }
    Ok((value.to_bits() >> 23) as i32 - 127)
}
