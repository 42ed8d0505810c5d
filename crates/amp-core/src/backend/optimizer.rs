//! Training: gradient checks and norms, optimizer updates, the loss scale.
//!
//! What decides whether a step is taken stays on the device: a training step need not wait for the host.

use super::{Buffer, Memory, Operand};
use crate::{Error, Result};
use amp_cpu::DType;
use amp_cpu::optim::{ScaleRule, UpdateRule};

/// One parameter in an update. All buffers are the caller's alone and have as many elements as the master.
#[derive(Debug)]
pub struct UpdateSlot<'a> {
    /// The F32 master.
    pub master: &'a mut Buffer,
    /// Its gradient: F32, contiguous.
    pub grad: Operand<'a>,
    /// F32 state, as many as [`UpdateRule::moments`] says.
    pub moments: &'a mut [Buffer],
    /// 16-bit copies of the master, rewritten in the same pass.
    pub copies: Vec<&'a mut Buffer>,
    /// Steps taken so far: one I64, counted up by the update.
    pub steps: &'a mut Buffer,
}

/// How an update is done: a rule, and where a device finds the settings that change between steps.
#[derive(Clone, Copy, Debug)]
pub struct UpdateSettings<'a> {
    /// The rule.
    pub rule: &'a UpdateRule,
    /// What [`Optimize::rates`] made, and the number of the group in it: learning rate and weight decay are these, not the
    /// rule's.
    pub rates: Option<(&'a Buffer, usize)>,
}

impl<'a> From<&'a UpdateRule> for UpdateSettings<'a> {
    fn from(rule: &'a UpdateRule) -> Self {
        Self { rule, rates: None }
    }
}

/// A schedule's move with a step whose outcome only the device knows.
#[derive(Debug)]
pub struct ScheduleMove<'a> {
    /// The step's flag: where it is set, nothing is counted.
    pub skip: Option<&'a Buffer>,
    /// Factors of the learning rates after `first` counted steps, after one more, and so on.
    pub factors: &'a [f64],
    /// See `factors`.
    pub first: u64,
}

/// Kernels over many tensors at once. Where nothing else is said, gradients are F32 and contiguous; flags are one U8 each.
pub trait Optimize: Memory {
    /// The sum of squares of each gradient times the product of `factors` (F32, one element each), as F64.
    ///
    /// A sum is finite exactly when every element times the factors is a finite F32.
    fn square_sums(&self, grads: &[Operand<'_>], factors: &[&Buffer]) -> Result<Buffer>;

    /// The largest magnitude of each gradient (of any precision and layout): infinite or NaN exactly when an element is.
    ///
    /// `None` on devices where the host would have to wait for it.
    fn peaks(&self, grads: &[Operand<'_>]) -> Result<Option<Vec<f32>>> {
        let _ = grads;
        Ok(None)
    }

    /// A flag: whether one of the sums numbered in `which` is not finite.
    fn any_non_finite(&self, sums: &Buffer, which: &[usize]) -> Result<Buffer>;

    /// Updates every slot with its gradient times the product of `factors`; where the flag `skip` is set, nothing at all
    /// changes.
    fn update(
        &self,
        settings: UpdateSettings<'_>,
        slots: Vec<UpdateSlot<'_>>,
        factors: &[&Buffer],
        skip: Option<&Buffer>,
    ) -> Result<()>;

    /// As [`update`](Self::update), where each gradient `[K, ..]` is that of the rows named by its I64 operand `[K]`, each once
    /// and in ascending order; other rows of master, state and copies stay as they are.
    fn update_rows(
        &self,
        settings: UpdateSettings<'_>,
        slots: Vec<(UpdateSlot<'_>, Operand<'_>)>,
        factors: &[&Buffer],
        skip: Option<&Buffer>,
    ) -> Result<()> {
        let _ = (settings, factors, skip);
        match slots.first() {
            Some((slot, _)) => {
                let (device, dtype) = ("this backend".into(), slot.grad.logical);
                Err(Error::Unsupported { op: "update_rows", device, dtype })
            }
            None => Ok(()),
        }
    }

    /// Memory from where updates read each group's learning rate and weight decay, F64 `[groups, 3]` with the learning rate
    /// that schedules multiply as the third; `None` on devices that are told with every update.
    fn rates(&self, groups: &[[f64; 3]]) -> Result<Option<Buffer>> {
        let _ = groups;
        Ok(None)
    }

    /// Counters of a schedule, I64 `[2]`: moves, and how many of those went with steps that were taken.
    fn schedule_state(&self) -> Result<Buffer> {
        self.fill(0.0, 2, DType::I64)
    }

    /// Counts a step, and sets the learning rates in `rates` to their third numbers times the factor that goes with the
    /// count.
    fn schedule(&self, to: &ScheduleMove<'_>, state: &mut Buffer, rates: &Buffer) -> Result<()> {
        let _ = (to, state);
        Err(Error::Unsupported { op: "schedule", device: "this backend".into(), dtype: rates.dtype() })
    }

    /// The counters of a schedule as far as the host knows without waiting.
    fn scheduled(&self, state: &Buffer) -> Result<[u64; 2]> {
        Err(Error::Unsupported { op: "schedule", device: "this backend".into(), dtype: state.dtype() })
    }

    /// The state of a loss scale: four I64, exponent, clean updates, bad updates, refused backoffs.
    fn scale_state(&self, numbers: [i64; 4]) -> Result<Buffer>;

    /// The scale of a state and its inverse (F32, one element each).
    fn scale_of(&self, state: &Buffer) -> Result<(Buffer, Buffer)>;

    /// Moves the loss scale after one iteration in which `flags` were seen.
    fn next_scale(&self, rule: &ScaleRule, flags: &[&Buffer], state: &mut Buffer) -> Result<()>;

    /// Refused backoffs in a state as far as the host knows without waiting: on a device, those of some updates ago.
    fn refused(&self, state: &Buffer) -> Result<u64>;

    /// Moves an F32 buffer a `share` of the way to `x` (`torch.lerp`), unless the flag `skip` is set.
    fn average(&self, into: &mut Buffer, x: Operand<'_>, share: f64, skip: Option<&Buffer>) -> Result<()>;

    /// Moves running statistics a `share` of the way to mean and variance of a batch, the latter times a factor, as
    /// [`average`](Self::average) does, and adds 1 to the I64 that counts batches; where the flag `skip` is set, nothing at all
    /// changes.
    fn track(
        &self,
        running: [&mut Buffer; 2],
        batch: ([Operand<'_>; 2], f64),
        counter: &mut Buffer,
        share: f64,
        skip: Option<&Buffer>,
    ) -> Result<()>;

    /// How many elements are not finite, and the largest magnitude among the others; synchronises with the device.
    fn magnitude(&self, x: Operand<'_>) -> Result<(usize, f64)>;
}
