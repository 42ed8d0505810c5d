//! State of modules that is not trained: running statistics, the train/eval mode, and changes that wait for a step.

use crate::autograd::{Edge, GradMode, grad_mode};
use crate::backend::Buffer;
use crate::locks::{lock, read, write};
use crate::param::PendingUpdate;
use crate::precision::{Element, F32, I64};
use crate::random::is_repeating;
use crate::raw::RawTensor;
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{Device, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};

/// A persistent tensor of a module that no optimizer touches (`register_buffer`), such as a running mean.
///
/// F32 by signature: an exponential average with a small weight stands still in 16 bits. Clones are handles of the
/// same tensor.
#[doc(alias = "register_buffer")]
#[derive(Clone)]
pub struct Statistics(Arc<RwLock<RawTensor>>);

impl Statistics {
    /// Starts at `tensor`.
    pub fn new(tensor: &Tensor<F32>) -> Self {
        Self::erased(tensor.raw.detached())
    }

    /// A counter that starts at 0 (`num_batches_tracked`).
    pub(crate) fn counter(device: &Device) -> Result<Self> {
        Ok(Self::erased(Tensor::<I64>::zeros((), device)?.raw))
    }

    fn erased(raw: RawTensor) -> Self {
        Self(Arc::new(RwLock::new(raw)))
    }

    /// The present value.
    pub fn tensor(&self) -> Tensor<F32> {
        let raw = self.raw();
        Tensor::from_raw(raw.cast_view(F32::DTYPE).unwrap_or(raw))
    }

    /// Replaces the value at once, whether or not a step is taken.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) when the shapes differ.
    pub fn set(&self, tensor: &Tensor<F32>) -> Result<()> {
        self.set_raw(tensor.raw.detached())
    }

    /// Which tensor this is a handle of.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn raw(&self) -> RawTensor {
        read(&self.0).clone()
    }

    /// Changes the memory in place; tensors taken earlier keep the old one.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Buffer) -> Result<()>) -> Result<()> {
        let mut slot = write(&self.0);
        change(slot.own()?)
    }

    pub(crate) fn set_raw(&self, value: RawTensor) -> Result<()> {
        let mut slot = write(&self.0);
        check_same("set", "the new value", slot.shape(), value.shape())?;
        *slot = value.to_device(slot.device())?.cast_view(slot.logical)?;
        Ok(())
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statistics{:?}", self.raw().shape())
    }
}

/// Whether a module trains or evaluates; switched by [`Module::train`](super::Module::train) and
/// [`Module::eval`](super::Module::eval). Starts in training mode.
pub struct Mode(AtomicBool);

impl Mode {
    /// Training mode.
    pub fn new() -> Self {
        Self(AtomicBool::new(true))
    }

    /// Whether the module is in training mode.
    pub fn is_training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, training: bool) {
        self.0.store(training, Ordering::Relaxed);
    }
}

impl Default for Mode {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_training() { "training" } else { "evaluation" })
    }
}

/// Changes of state that forward passes want and no step has made yet.
///
/// A graph owns the changes of its forward pass and drops them with itself; a forward pass under `no_grad` leaves its change
/// here. A pass that is recorded but has no graph, because nothing in the layer or below is trained, has no step to wait for:
/// its change is made at once. Of a checkpointed segment the first run has the change, however often it runs again.
#[derive(Default)]
pub struct Waiting(Mutex<Vec<Entry>>);

enum Entry {
    InGraph(Weak<Mutex<Option<Change>>>),
    Here(PendingUpdate),
}

pub(crate) use crate::param::Change;

impl Waiting {
    /// Nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ties `change` to the graph of `y`. Without a graph it is made at once, or kept here under `no_grad`. Where several
    /// optimizers share gradients, the one that has the layer's `parameters` decides about it.
    pub(crate) fn add(&self, y: &RawTensor, parameters: Arc<[u64]>, change: Change) -> Result<()> {
        if is_repeating() {
            return Ok(());
        }
        let (update, recorded) = (PendingUpdate::new(change, parameters), grad_mode() != GradMode::Off);
        let mut entries = lock(&self.0);
        // Of forwards without a graph only the latest can still be meant by a later `commit`, and none of those that a
        // recorded one follows.
        entries.retain(|entry| matches!(entry, Entry::InGraph(_)) && entry.is_open());
        let entry = match &y.edge {
            Some(Edge::Node(node)) if recorded => {
                let weak = update.downgrade();
                lock(&node.held).pending.push(update);
                Entry::InGraph(weak)
            }
            _ if recorded => return update.land(None),
            _ => Entry::Here(update),
        };
        entries.push(entry);
        Ok(())
    }

    /// Makes all changes that are still open.
    pub(super) fn commit(&self) -> Result<()> {
        let entries = std::mem::take(&mut *lock(&self.0));
        entries.into_iter().try_for_each(|entry| match entry {
            Entry::InGraph(weak) => weak.upgrade().map_or(Ok(()), |slot| PendingUpdate::from(slot).land(None)),
            Entry::Here(update) => update.land(None),
        })
    }
}

impl Entry {
    fn is_open(&self) -> bool {
        match self {
            Self::InGraph(weak) => weak.upgrade().is_some_and(|slot| PendingUpdate::from(slot).is_open()),
            Self::Here(update) => update.is_open(),
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waiting")
    }
}
