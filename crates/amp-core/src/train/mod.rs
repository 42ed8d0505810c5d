//! Stopping and resuming: everything that training changes, in one file.

mod file;
#[cfg(test)]
mod hostile;
mod optimizers;
mod penalty;
#[cfg(test)]
mod resumed;
#[cfg(test)]
mod tests;

pub use penalty::gradient_norm;

use crate::io::TensorFile;
use crate::nn::{Module, Staged};
use crate::optim::{Ema, Optimizer, ReduceOnPlateau, Schedule};
use crate::{Device, GradScaler, Result};
use std::path::Path;

/// Everything that training changes: models, optimizers, scalers, schedules, averages, counters and the global random
/// state. Name them in the same order to save and to load.
///
/// The file is written under a temporary name and renamed, and loading changes everything or nothing. A resumed run
/// continues bit for bit.
///
/// ```
/// # use amp_core::{nn::Linear, io::TensorFile, nn::Module, optim::Sgd, train::TrainState, Device, GradScaler};
/// # let device = Device::cpu();
/// # let path = std::env::temp_dir().join(format!("amp-doc-{}.safetensors", std::process::id()));
/// let net = Linear::new(4, 4, &device)?;
/// let mut opt = Sgd::new(net.parameters(), 0.1);
/// let (mut scaler, mut step) = (GradScaler::new(&device)?, 17);
/// TrainState::new(&net, &mut opt, &mut scaler).counter(&mut step).save(&path)?;
/// TrainState::new(&net, &mut opt, &mut scaler).counter(&mut step).load(&path)?;
///
/// // For inference: the first model alone. The first average's values of its parameters are `part("ema.0.0")`.
/// net.load_state(&TensorFile::load(&path, &device)?.part("model.0"))?;
/// # std::fs::remove_file(path).ok();
/// # Ok::<_, amp_core::Error>(())
/// ```
#[doc(alias = "checkpoint")]
pub struct TrainState<'a> {
    models: Vec<&'a dyn Module>,
    optimizers: Vec<&'a mut dyn Optimizer>,
    scalers: Vec<&'a mut GradScaler>,
    schedules: Vec<&'a mut dyn Schedule>,
    plateaus: Vec<&'a mut ReduceOnPlateau>,
    averages: Vec<&'a mut Ema>,
    counters: Vec<&'a mut u64>,
}

impl<'a> TrainState<'a> {
    /// A model with its optimizer and scaler.
    pub fn new(model: &'a dyn Module, optimizer: &'a mut dyn Optimizer, scaler: &'a mut GradScaler) -> Self {
        Self::of(model).optimizer(optimizer).scaler(scaler)
    }

    /// A model alone.
    pub fn of(model: &'a dyn Module) -> Self {
        Self {
            models: vec![model],
            optimizers: Vec::new(),
            scalers: Vec::new(),
            schedules: Vec::new(),
            plateaus: Vec::new(),
            averages: Vec::new(),
            counters: Vec::new(),
        }
    }

    /// Another model.
    pub fn model(mut self, model: &'a dyn Module) -> Self {
        self.models.push(model);
        self
    }

    /// An optimizer.
    pub fn optimizer(mut self, optimizer: &'a mut dyn Optimizer) -> Self {
        self.optimizers.push(optimizer);
        self
    }

    /// A scaler.
    pub fn scaler(mut self, scaler: &'a mut GradScaler) -> Self {
        self.scalers.push(scaler);
        self
    }

    /// A learning-rate schedule.
    pub fn schedule(mut self, schedule: &'a mut dyn Schedule) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// A learning rate that falls when a measure stops improving.
    pub fn plateau(mut self, plateau: &'a mut ReduceOnPlateau) -> Self {
        self.plateaus.push(plateau);
        self
    }

    /// A moving average.
    pub fn ema(mut self, average: &'a mut Ema) -> Self {
        self.averages.push(average);
        self
    }

    /// A counter of one's own, such as the number of steps or epochs.
    pub fn counter(mut self, counter: &'a mut u64) -> Self {
        self.counters.push(counter);
        self
    }

    /// Writes everything to one file; synchronises with the device.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the file cannot be written; a file that was there before is still there.
    /// [`Error::Argument`](crate::Error::Argument) for an optimizer of your own, whose state is not known here, and while an `Ema`
    /// is swapped in; [`Error::State`](crate::Error::State) when two tensors have one path.
    pub fn save(mut self, path: impl AsRef<Path>) -> Result<()> {
        self.write()?.save(path)
    }

    /// Restores everything, so that training continues from where the file was saved. As in PyTorch, settings of optimizers are
    /// restored too (momentum, betas, weight decay and so on; files of older versions hold none but the learning rates): to go on
    /// with others, set them afterwards.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the file cannot be read, [`Error::Format`](crate::Error::Format) when it is
    /// truncated, damaged or of another version, or holds something that is not named here or is of another kind,
    /// [`Error::State`](crate::Error::State) when its tensors belong to another model or optimizer,
    /// [`Error::Argument`](crate::Error::Argument) for what [`save`](Self::save) refuses and for a scaler's state that cannot be
    /// used, or [`Error::ScalerState`](crate::Error::ScalerState). Nothing has changed then.
    pub fn load(mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let file = TensorFile::load(path, &Device::cpu())?;
        self.read(&file).map_err(|e| file::named(e, path))
    }
}

impl std::fmt::Debug for TrainState<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TrainState of {} models and {} optimizers", self.models.len(), self.optimizers.len())
    }
}

/// One change that loading makes, once everything was checked.
type Change<'c> = Box<dyn FnOnce() -> Result<()> + 'c>;

fn assigning<'c, T: 'c>(place: &'c mut T, value: T) -> Change<'c> {
    Box::new(move || {
        *place = value;
        Ok(())
    })
}

fn landing<'c>(staged: Staged) -> Change<'c> {
    Box::new(move || staged.land())
}
