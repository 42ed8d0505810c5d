//! Optimizers and learning-rate schedules. All state is F32; updates run over all parameters in one pass.

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod cycles;
mod declare;
mod ema;
mod groups;
mod lbfgs;
mod lion;
mod muon;
mod nadam;
mod plateau;
mod radam;
mod ramps;
mod rates;
mod rmsprop;
mod rule;
mod schedule;
mod sgd;
mod taken;
mod update;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW, SparseAdam};
pub use adamax::Adamax;
pub use cycles::{CosineRestarts, CyclicLr};
pub use ema::Ema;
pub use groups::ParameterGroups;
pub(crate) use groups::{SavedGroups, State, describe};
pub use lbfgs::Lbfgs;
pub use lion::Lion;
pub use muon::Muon;
pub use nadam::NAdam;
pub(crate) use plateau::PlateauState;
pub use plateau::ReduceOnPlateau;
pub use radam::RAdam;
pub use ramps::{ConstantLr, LinearLr};
pub use rmsprop::RmsProp;
pub(crate) use rule::{Setting, Settings};
pub use schedule::{Chain, CosineLr, LambdaLr, LinearWarmup, MultiStepLr, OneCycle, PolynomialLr, Schedule, StepLr};
pub use sgd::Sgd;
#[doc(hidden)]
pub use taken::Taken;

use crate::autograd::{Gradients, IsUnscaled, Unscaled};
use crate::backend::Buffer;
use crate::param::Parameter;
use crate::{Device, Error, Result};

/// Changes parameters by their gradients.
///
/// An optimizer of your own implements [`parameters`](Self::parameters), [`apply`](Self::apply) and the two methods about the
/// learning rate. [`GradScaler::step`](crate::GradScaler::step) then decides on the host whether to call it.
///
/// ```
/// # use amp_core::{optim::Optimizer, Device, Gradients, Parameter, Result, Tensor};
/// struct SignSgd { parameters: Vec<Parameter>, initial_lr: f64, lr: f64 }
///
/// impl Optimizer for SignSgd {
///     fn parameters(&self) -> &[Parameter] {
///         &self.parameters
///     }
///     fn apply(&mut self, grads: &Gradients) -> Result<()> {
///         for p in &self.parameters {
///             if let Some(grad) = grads.get(p)? {
///                 p.set(&(p.detach() - (grad.sign()? * self.lr)?)?)?;
///             }
///         }
///         Ok(())
///     }
///     fn schedule(&mut self, factor: f64) {
///         self.lr = factor * self.initial_lr;
///     }
///     fn learning_rate(&self) -> f64 {
///         self.lr
///     }
/// }
///
/// let w = Parameter::new(&Tensor::ones([2], &Device::cpu())?)?;
/// let mut optimizer = SignSgd { parameters: vec![w.clone()], initial_lr: 0.5, lr: 0.5 };
/// optimizer.step(&(w.tensor() * 3.0)?.sum_all()?.backward()?)?;
/// assert_eq!(w.to_vec()?, [0.5, 0.5]);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no optimizer that steps with given gradients",
    label = "does not implement `Optimizer`",
    note = "`Lbfgs` evaluates the loss itself, several times a step, so it takes no scaler: `optimizer.step(|| ..)?`, in BF16 or F32"
)]
pub trait Optimizer {
    /// Every parameter that this optimizer changes.
    fn parameters(&self) -> &[Parameter];

    /// One update from gradients at their true size; parameters without a gradient stay as they are.
    ///
    /// Optimizers implement it; training calls [`step`](Self::step), which also checks where the gradients come from and makes
    /// pending changes of running statistics.
    fn apply(&mut self, grads: &Gradients<Unscaled>) -> Result<()>;

    /// Sets the learning rate of each group to `factor` times the one it was made with; schedules call it. Steps that are
    /// queued on a GPU already keep the old rate, replays of a captured step take the new one.
    #[doc(alias = "set_lr")]
    fn schedule(&mut self, factor: f64);

    /// The learning rate of the first group; synchronises with the device if a schedule has moved it there.
    #[doc(alias = "get_last_lr")]
    fn learning_rate(&self) -> f64;

    /// The built-in optimizers' common core, which skips a step without asking the host.
    #[doc(hidden)]
    fn groups(&mut self) -> Option<&mut ParameterGroups> {
        None
    }

    /// One update from gradients at their true size; parameters without a gradient stay as they are. Changes of state
    /// that the forward pass left pending (running statistics) are made too.
    ///
    /// Gradients of a scaled loss go through [`GradScaler::step`](crate::GradScaler::step), unscaled ones too: what the
    /// scaler has found in them decides about the step. Behind a `&mut dyn Optimizer` it is `(&mut optimizer).step(&grads)`.
    ///
    /// # Errors
    /// [`Error::PastScaler`] when a [`GradScaler`](crate::GradScaler) unscaled these gradients; [`Error::Argument`] when a
    /// setting makes no sense or two groups have the same parameter; [`Error::SparseGradient`] for rows of a table that this
    /// optimizer cannot move alone; [`Error::Device`] for parameters or gradients on different devices. Nothing has changed then.
    fn step<S: IsUnscaled>(&mut self, grads: &Gradients<S>) -> Result<()>
    where
        Self: Sized,
    {
        let grads = S::unscaled(grads);
        if grads.scale.scaler != 0 {
            return Err(Error::PastScaler);
        }
        self.apply(grads)?;
        grads.take_pending().into_iter().try_for_each(|update| update.land(None))
    }
}

/// An optimizer that is chosen at run time, or lent.
macro_rules! pointers {
    ($($pointer:ty),*) => { $(
        impl<O: Optimizer + ?Sized> Optimizer for $pointer {
            fn parameters(&self) -> &[Parameter] {
                (**self).parameters()
            }

            fn apply(&mut self, grads: &Gradients<Unscaled>) -> Result<()> {
                (**self).apply(grads)
            }

            fn schedule(&mut self, factor: f64) {
                (**self).schedule(factor);
            }

            fn learning_rate(&self) -> f64 {
                (**self).learning_rate()
            }

            fn groups(&mut self) -> Option<&mut ParameterGroups> {
                (**self).groups()
            }
        }
    )* };
}
pointers!(Box<O>, &mut O);

/// Whether a step was taken: schedules, averages and statistics move only then.
#[derive(Clone, Debug)]
pub struct Step(Option<Skip>);

/// A flag on a device that is set when a step was skipped.
#[derive(Clone, Debug)]
pub(crate) struct Skip {
    device: Device,
    flag: crate::backend::Buffer,
}

impl Skip {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.flag
    }

    /// The flag on `device`; synchronises if it is another one.
    pub(crate) fn on(&self, device: &Device) -> Result<Buffer> {
        self.device.transfer(&self.flag, device)
    }
}

impl Step {
    /// A step taken without a scaler.
    pub fn taken() -> Self {
        Self(None)
    }

    /// A step that was skipped where `flag` is set.
    pub(crate) fn unless(device: Device, flag: crate::backend::Buffer) -> Self {
        Self(Some(Skip { device, flag }))
    }

    /// The flag that says that nothing was changed, if there is one.
    pub(crate) fn flag(&self) -> Option<&Skip> {
        self.0.as_ref()
    }

    /// Whether the parameters were changed; synchronises with the device.
    pub fn was_taken(&self) -> Result<bool> {
        let Some(Skip { device, flag }) = &self.0 else { return Ok(true) };
        match device.backend().download(flag)? {
            amp_cpu::Storage::U8(flags) => Ok(flags.iter().all(|&f| f == 0)),
            other => Err(Error::Unsupported { op: "was_taken", device: device.name().into(), dtype: other.dtype() }),
        }
    }
}
