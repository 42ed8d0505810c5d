//! The scaler's state for checkpoints, also in PyTorch's form.

use super::{GradScaler, builder};
use crate::{Error, Result};
use amp_cpu::optim::{ScaleRule, ScaleState};
use serde_json::{Value, json};

/// Everything a scaler remembers between iterations; take it after [`GradScaler::update`].
///
/// [`TrainState`](crate::train::TrainState) saves it with the rest of a training run; as text it goes to PyTorch and back:
///
/// ```
/// # use amp_core::{Device, GradScaler, ScalerState};
/// let mut scaler = GradScaler::builder().init_scale(1024.0).build(&Device::cpu())?;
/// let text = scaler.state()?.expect("only a disabled scaler has no state").to_json();
/// scaler.update_to(2.0)?;
/// scaler.load_state(&ScalerState::from_json(&text)?)?;
/// assert_eq!(scaler.scale_value()?, 1024.0);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ScalerState {
    /// The scale.
    pub scale: f32,
    /// What the scale grows by.
    pub growth_factor: f32,
    /// What the scale shrinks by.
    pub backoff_factor: f32,
    /// Clean steps between two growths.
    pub growth_interval: u64,
    /// Clean steps so far.
    pub growth_tracker: u64,
    /// Steps with non-finite gradients since the last clean one (for hysteresis).
    pub bad_steps: u64,
    /// Backoffs refused at the floor since the last clean step, or the last backoff that was not refused.
    pub refused: u64,
}

impl ScalerState {
    /// Whether a scaler had it whose scale never moves.
    fn is_static(&self) -> bool {
        self.growth_factor == 1.0 && self.backoff_factor == 1.0
    }

    /// The fields of PyTorch's `GradScaler.state_dict()`, and two of our own.
    pub fn to_json(&self) -> String {
        json!({
            "scale": self.scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self.growth_tracker,
            "bad_steps": self.bad_steps,
            "refused": self.refused,
        })
        .to_string()
    }

    /// Reads the fields of PyTorch's `GradScaler.state_dict()`; our own are optional.
    ///
    /// # Errors
    /// [`Error::ScalerState`] when the text is not such a dictionary, also when it is empty: a disabled scaler saves `{}`.
    pub fn from_json(text: &str) -> Result<Self> {
        let bad = |reason: String| Error::ScalerState { reason };
        let value: Value = serde_json::from_str(text).map_err(|e| bad(format!("not JSON: {e}")))?;
        let fields = value.as_object().ok_or_else(|| bad("not an object".into()))?;
        if fields.is_empty() {
            return Err(bad("empty; it was probably saved by a disabled scaler".into()));
        }
        let number = |name: &str| {
            let value = fields.get(name).ok_or_else(|| bad(format!("`{name}` is missing")))?;
            value.as_f64().ok_or_else(|| bad(format!("`{name}` must be a number, found {value}")))
        };
        let count = |name: &str| {
            let value = fields.get(name).ok_or_else(|| bad(format!("`{name}` is missing")))?;
            value.as_u64().ok_or_else(|| bad(format!("`{name}` must be a count, found {value}")))
        };
        let optional = |name: &str| if fields.contains_key(name) { count(name) } else { Ok(0) };
        Ok(Self {
            scale: number("scale")? as f32,
            growth_factor: number("growth_factor")? as f32,
            backoff_factor: number("backoff_factor")? as f32,
            growth_interval: count("growth_interval")?,
            growth_tracker: count("_growth_tracker")?,
            bad_steps: optional("bad_steps")?,
            refused: optional("refused")?,
        })
    }
}

impl GradScaler {
    /// The state; synchronises with the device. `None` when disabled.
    pub fn state(&self) -> Result<Option<ScalerState>> {
        if !self.enabled {
            return Ok(None);
        }
        let ScaleState { exponent, clean, bad, refused } = self.read_state()?;
        Ok(Some(ScalerState {
            scale: (exponent as f32).exp2(),
            growth_factor: (self.rule.growth as f32).exp2(),
            backoff_factor: (self.rule.backoff as f32).exp2(),
            growth_interval: self.rule.interval,
            growth_tracker: clean,
            bad_steps: bad,
            refused,
        }))
    }

    /// Goes on from `state`; a disabled scaler ignores it. The scale is rounded down to a power of two within floor and
    /// ceiling. Of a static scaler's state, whose factors are 1, others take the scale alone and keep their settings.
    ///
    /// # Errors
    /// [`Error::Argument`] when the scale does not lie between 2^-126 and 2^127, or a factor is no power of two above 1 (growth)
    /// or below it (backoff); a static scaler keeps its own. Nothing has changed then.
    pub fn load_state(&mut self, state: &ScalerState) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let (rule, exponent) = self.check_state(state)?;
        // Counters are kept as I64.
        let counts = match state.is_static() && self.rule.growth != 0 {
            true => [0; 3],
            false => [state.growth_tracker, state.bad_steps, state.refused],
        };
        let [clean, bad, refused] = counts.map(|count| count.min(i64::MAX as u64));
        self.write_state(&ScaleState { exponent, clean, bad, refused })?;
        (self.rule, self.round) = (rule, self.round + 1);
        self.seen.clear();
        Ok(())
    }

    /// The settings and the exponent that `state` leads to.
    pub(crate) fn check_state(&self, state: &ScalerState) -> Result<(ScaleRule, i32)> {
        let exponent = builder::exponent_below("load_state", state.scale)?;
        let mut rule = self.rule;
        // A static scale keeps its settings, and has none to give.
        if rule.growth != 0 && !state.is_static() {
            rule.growth = builder::growth(state.growth_factor)?;
            rule.backoff = builder::backoff(state.backoff_factor)?;
            rule.interval = state.growth_interval;
        }
        Ok((rule, exponent.clamp(rule.floor, rule.ceiling)))
    }
}
