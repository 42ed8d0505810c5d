//! Dynamic loss scaling.
//!
//! Small F16 gradients would vanish, so the loss is multiplied by a scale before the backward pass and gradients are
//! divided by it before the step. The scale doubles after a run of clean steps and halves when something overflows;
//! that step is then skipped. The order of calls is in the types: [`GradScaler::scale`] gives a [`ScaledLoss`], its
//! backward pass [`Gradients<Scaled>`], which [`GradScaler::unscale`] consumes.

mod builder;
mod loss;
#[cfg(test)]
mod scenarios;
mod settings;
mod state;
mod step;

pub use builder::GradScalerBuilder;
pub use loss::{LossPrecision, ScaledLoss};
pub use state::ScalerState;
pub use step::StepGradients;

use crate::autograd::{Checked, Gradients, IsScaled, ScaleTag, Scaled, Unscaled, Watch, next_id};
use crate::backend::Buffer;
use crate::locks::{lock, unlocked};
use crate::optim::{Optimizer, Step, describe};
use crate::param::Parameter;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Device, Error, Result};
use amp_cpu::Storage;
use amp_cpu::optim::{ScaleRule, ScaleState};
use std::fmt;
use std::sync::Mutex;

/// Scales losses so that F16 gradients neither vanish nor overflow (`torch.amp.GradScaler`).
///
/// Rules and defaults are PyTorch's: 65536, doubled after 2000 clean steps, halved when a gradient is not finite, one
/// decision per optimizer, one [`update`](Self::update) per iteration. The scale is a power of two between a floor
/// (1 by default) and a ceiling, so it never reaches 0 or infinity and scaling is exact.
///
/// Gradients belong to the scaler that scaled them: handing them to another one is a run-time error
/// ([`Error::ForeignGradients`]).
///
/// ```
/// # use amp_core::{nn::{Linear, Module}, optim::Sgd, Device, F16, F32, GradScaler, Tensor};
/// # let device = Device::cpu();
/// # let (net, x) = (Linear::new(4, 1, &device)?, Tensor::<F32>::ones([8, 4], &device)?);
/// let mut optimizer = Sgd::new(net.parameters(), 0.1);
/// let mut scaler = GradScaler::new(&device)?;
/// for _ in 0..3 {
///     let loss = net.forward(&x.to::<F16>()?)?.to::<F32>()?.sqr()?.mean_all()?;
///     let grads = scaler.scale(&loss)?.backward()?;
///     // Only to clip them: `step` takes gradients that are still scaled, too.
///     let mut grads = scaler.unscale(grads)?;
///     grads.clip_norm(1.0)?;
///     scaler.step(&mut optimizer, grads)?;
///     scaler.update()?;
/// }
/// assert_eq!(scaler.scale_value()?, 65536.0);
/// # Ok::<_, amp_core::Error>(())
/// ```
pub struct GradScaler {
    id: u64,
    enabled: bool,
    rule: ScaleRule,
    /// Refused backoffs in a row after which `update` reports an error.
    patience: u64,
    device: Device,
    /// Exponent, clean updates, bad updates, refused backoffs: on the device.
    state: Buffer,
    /// The scale and its inverse, once somebody asked for them.
    factors: Mutex<Option<Factors>>,
    /// Counts updates.
    round: u64,
    /// What was seen since the last update.
    seen: Vec<Seen>,
    /// Looks for the operation at fault, once the scale could not be lowered.
    watch: Option<Watch>,
}

/// The scale and its inverse, and the number of the device's recording (0 for none) in which they were computed.
#[derive(Clone, Debug)]
struct Factors {
    recording: u64,
    scale: Buffer,
    inverse: Buffer,
}

/// One check of gradients, and whose they were.
#[derive(Debug)]
struct Seen {
    checked: Checked,
    /// Empty while the gradients were only unscaled.
    parameters: Vec<Parameter>,
    /// Which of the built-in optimizers stepped, if one did.
    optimizer: Option<u64>,
}

// A module may hold a scaler: the parameters in it are handles of ones that some model visits (see `nn::derive`).
impl Unpin for GradScaler {}

impl GradScaler {
    /// A scaler with PyTorch's defaults.
    pub fn new(device: &Device) -> Result<Self> {
        Self::builder().build(device)
    }

    /// Settings before the start: `GradScaler::builder().init_scale(1024.0).build(&device)?`.
    pub fn builder() -> GradScalerBuilder {
        GradScalerBuilder::default()
    }

    fn start(enabled: bool, rule: ScaleRule, exponent: i32, patience: u64, device: &Device) -> Result<Self> {
        let state = ScaleState { exponent, clean: 0, bad: 0, refused: 0 };
        let state = upload(&state, device)?;
        let (id, device) = (next_id(), device.clone());
        Ok(Self {
            id,
            enabled,
            rule,
            patience,
            device,
            state,
            factors: Mutex::default(),
            round: 0,
            seen: Vec::new(),
            watch: None,
        })
    }

    /// Whether the scaler does anything; with `enabled(false)` it only steps the optimizer.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The present scale, 1 when disabled; synchronises with the device.
    #[doc(alias = "get_scale")]
    pub fn scale_value(&self) -> Result<f32> {
        if !self.enabled {
            return Ok(1.0);
        }
        Ok((self.read_state()?.exponent as f32).exp2())
    }

    /// Multiplies a loss by the scale: the way to a backward pass.
    ///
    /// The multiplication happens in the backward pass, exactly; the loss itself keeps its value.
    pub fn scale<P: LossPrecision>(&self, loss: &Tensor<P>) -> Result<ScaledLoss> {
        let factors = match self.enabled {
            true => {
                let Factors { scale, inverse, .. } = self.factors()?;
                let on_loss = |factor| self.device.transfer(factor, loss.device());
                Some((on_loss(&scale)?, on_loss(&inverse)?))
            }
            false => None,
        };
        Ok(ScaledLoss::new(loss.raw.clone(), self.tag(), factors))
    }

    /// Brings gradients back to their true size, once, after all micro-batches were added.
    ///
    /// Checks them for infinities and NaN in the same pass; that decides about the step, whatever is done to the
    /// gradients afterwards. [`step`](Self::step) knows of it, an optimizer's own does not and refuses.
    ///
    /// # Errors
    /// [`Error::ForeignGradients`] when another scaler scaled them.
    pub fn unscale<S: IsScaled>(&mut self, grads: Gradients<S>) -> Result<Gradients<Unscaled>> {
        self.unscaled("unscale", S::scaled(grads))
    }

    fn unscaled(&mut self, op: &'static str, grads: Gradients<Scaled>) -> Result<Gradients<Unscaled>> {
        if !grads.is_empty() && grads.scale.scaler != self.id {
            return Err(Error::ForeignGradients { op });
        }
        let mut grads = grads.into_state::<Unscaled>();
        if !self.enabled {
            grads.scale = ScaleTag::default();
        } else if let Some(checked) = grads.check()?.cloned() {
            self.seen.push(Seen { checked, parameters: Vec::new(), optimizer: None });
        }
        Ok(grads)
    }

    /// Updates the optimizer's parameters, unless one of their gradients is not finite. Takes gradients by value, scaled
    /// or unscaled, or a reference to unscaled ones that several optimizers share.
    ///
    /// A skipped step changes nothing at all; hand the returned [`Step`] to schedules and averages. Pending changes of
    /// state (running statistics) are made when the step is taken. Where several optimizers share the gradients, a layer's
    /// changes are made by the step of the optimizer that has its parameters, or by the first step if these have no gradient.
    ///
    /// # Errors
    /// [`Error::NoGradients`] when no parameter of the optimizer has a gradient; [`Error::SteppedTwice`] when a built-in
    /// optimizer was stepped since the last [`update`](Self::update); [`Error::NotScaled`] when no scaler scaled the gradients;
    /// [`Error::ForeignGradients`] when another one scaled or unscaled them; and what the optimizer refuses. A disabled scaler
    /// asks only whose gradients they are.
    pub fn step<O: Optimizer + ?Sized>(&mut self, optimizer: &mut O, grads: impl StepGradients) -> Result<Step> {
        grads.step(self, optimizer)
    }

    /// Moves the scale, once per iteration after the last optimizer: down when anything was not finite, up after enough
    /// clean iterations.
    ///
    /// # Errors
    /// [`Error::NothingChecked`] when no gradients were unscaled or stepped with since the last update.
    /// [`Error::ScaleAtFloor`] when the scale could not be lowered several times running; on a GPU, which is not waited for,
    /// a few updates later.
    pub fn update(&mut self) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        if self.seen.is_empty() {
            return Err(Error::NothingChecked);
        }
        let flags = self.seen.iter().map(|seen| seen.flag_on(&self.device)).collect::<Result<Vec<_>>>()?;
        let flags: Vec<&Buffer> = flags.iter().collect();
        self.device.backend().next_scale(&self.rule, &flags, &mut self.state)?;
        self.forget_factors();
        self.round += 1;
        let seen = std::mem::take(&mut self.seen);
        self.refuse_to_go_on(&seen)
    }

    /// Sets the scale, rounded down to a power of two within floor and ceiling, in place of an [`update`](Self::update); a
    /// disabled scaler ignores it.
    ///
    /// # Errors
    /// [`Error::Argument`] when `scale` does not lie between 2^-126 and 2^127. A static scale stays as it is.
    pub fn update_to(&mut self, scale: f32) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let exponent = builder::exponent_below("update_to", scale)?.clamp(self.rule.floor, self.rule.ceiling);
        let now = self.read_state()?;
        self.write_state(&ScaleState { exponent, refused: 0, ..now })?;
        self.seen.clear();
        self.round += 1;
        Ok(())
    }

    /// An error when the scale sits at its floor and gradients still are not finite.
    ///
    /// From the first refused backoff on, this thread's operations are watched, so that the error can say where the first
    /// value that is not finite came from.
    fn refuse_to_go_on(&mut self, seen: &[Seen]) -> Result<()> {
        let refused = self.device.backend().refused(&self.state)?;
        let culprit = self.watch.take().and_then(|_| Watch::found()).map(Box::new);
        self.watch = (refused > 0).then(Watch::begin);
        if refused < self.patience {
            return Ok(());
        }
        let state = self.read_state()?;
        if state.refused < self.patience {
            return Ok(());
        }
        let parameter = seen.iter().find_map(|s| s.first_non_finite().transpose()).transpose()?;
        let parameter = parameter.unwrap_or_else(|| "none of the last step".into());
        Err(Error::ScaleAtFloor { scale: (state.exponent as f32).exp2(), times: state.refused, parameter, culprit })
    }

    /// The scale and its inverse on the device, the same buffers until the scale moves. While the device's work is recorded they
    /// are computed anew, as part of the recording, so that every replay uses the scale of its time.
    fn factors(&self) -> Result<Factors> {
        let backend = self.device.backend();
        let recording = backend.recording();
        let mut known = lock(&self.factors);
        if let Some(factors) = known.as_ref().filter(|f| f.recording == recording) {
            return Ok(factors.clone());
        }
        let (scale, inverse) = backend.scale_of(&self.state)?;
        Ok(known.insert(Factors { recording, scale, inverse }).clone())
    }

    fn forget_factors(&mut self) {
        *unlocked(&mut self.factors) = None;
    }

    fn tag(&self) -> ScaleTag {
        ScaleTag { scaler: self.id, round: self.round }
    }

    fn read_state(&self) -> Result<ScaleState> {
        match self.device.backend().download(&self.state)? {
            Storage::I64(v) if v.len() == 4 => {
                Ok(ScaleState { exponent: v[0] as i32, clean: v[1] as u64, bad: v[2] as u64, refused: v[3] as u64 })
            }
            other => {
                Err(Error::Unsupported { op: "GradScaler", device: self.device.name().into(), dtype: other.dtype() })
            }
        }
    }

    fn write_state(&mut self, state: &ScaleState) -> Result<()> {
        self.state = upload(state, &self.device)?;
        self.forget_factors();
        Ok(())
    }
}

fn upload(state: &ScaleState, device: &Device) -> Result<Buffer> {
    let numbers = [i64::from(state.exponent), state.clean as i64, state.bad as i64, state.refused as i64];
    device.backend().scale_state(numbers)
}

/// Synchronises with the device, where the scale is.
impl fmt::Debug for GradScaler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut scaler, state) = (f.debug_struct("GradScaler"), self.state().ok().flatten());
        if let Some(state) = state {
            scaler.field("scale", &state.scale).field("growth_tracker", &state.growth_tracker);
        }
        scaler.field("enabled", &self.enabled).field("device", &self.device).finish_non_exhaustive()
    }
}

impl Seen {
    /// A flag: whether one of these gradients is not finite.
    fn flag(&self) -> Result<Buffer> {
        let sums: &RawTensor = &self.checked.sums;
        let which: Vec<usize> = match self.parameters.is_empty() {
            true => self.checked.index.values().copied().collect(),
            false => self.parameters.iter().filter_map(|p| self.checked.index.get(&p.id()).copied()).collect(),
        };
        sums.backend().any_non_finite(&sums.value.buffer, &which)
    }

    /// The flag on `device`; synchronises if the gradients are on another one.
    fn flag_on(&self, device: &Device) -> Result<Buffer> {
        self.checked.sums.device().transfer(&self.flag()?, device)
    }

    /// The first parameter, in the optimizer's order, whose gradient is not finite; synchronises with the device.
    fn first_non_finite(&self) -> Result<Option<String>> {
        let sums = self.checked.sums.to_storage()?;
        let Storage::F64(sums) = sums else { return Ok(None) };
        let bad = |p: &&Parameter| self.checked.index.get(&p.id()).is_some_and(|&i| !sums[i].is_finite());
        Ok(self.parameters.iter().find(bad).map(describe))
    }
}
